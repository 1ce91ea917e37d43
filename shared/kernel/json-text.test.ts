import fc from 'fast-check';
import t from 'tap';
import { JsonPart, jsonText } from './json-text.ts';
import { atOnce } from './pieces.ts';

const seed = Date.now() & 0x7fffffff;

/** Values of a reply, with members and items that JSON has no text for. */
const values = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 5 },
    fc.jsonValue({ maxDepth: 1 }),
    fc.constant(undefined),
    fc.date(),
    tie('list'),
    tie('object'),
  ),
  list: fc.array(tie('value'), { maxLength: 40 }),
  object: fc.dictionary(fc.string(), tie('value')),
})).value;

t.test(`a value in pieces has the text of JSON.stringify (seed ${seed})`, async (t) => {
  fc.assert(
    fc.property(values, (value) => atOnce(jsonText(value)) === JSON.stringify(value)),
    { seed, numRuns: 2_000 },
  );
  const large = { list: Array.from({ length: 5_000 }, (_, n) => ({ n })), none: undefined };
  const wide = Object.fromEntries(large.list.map(({ n }) => [`m${n}`, n % 3 === 0 ? undefined : n]));
  for (const value of [large, wide, { data: { large, wide } }]) {
    const pieces = jsonText(value);
    let count = 0;
    for (let step = pieces.next(); ; step = pieces.next(), count += 1) {
      if (step.done !== true) continue;
      t.equal(step.value, JSON.stringify(value));
      break;
    }
    t.ok(count > 100);
  }
});

t.test('a stored text is written as it is at any place', async (t) => {
  const part = new JsonPart('{"a.b":"$x","n":1.50}');
  t.equal(
    atOnce(jsonText({ rows: [{ data: part, at: null }], none: undefined })),
    `{"rows":[{"data":${part.text},"at":null}]}`,
  );
  t.equal(atOnce(jsonText(part)), part.text);
  t.equal(JSON.stringify({ data: part }), '{"data":{"a.b":"$x","n":1.5}}', 'as its value, where pieces are unknown');
});
