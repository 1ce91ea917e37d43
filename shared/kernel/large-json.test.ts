import fc from 'fast-check';
import t from 'tap';
import { JsonPart, jsonText } from './json.ts';
import { type ParsedJson, parseLarge } from './large-json.ts';
import { parseJson, parseJsonText } from './parse-json.ts';
import { atOnce } from './pieces.ts';

const seed = Date.now() & 0x7fffffff;

/** Parts of JSON in any order, most of which are not JSON together. */
const MARKS = ['{', '}', '[', ']', ',', ':', ' ', '\n', '1', 'null', '"a"', '"é"', '"\\""', '"__proto__"', '"', 'x'];
/** No letter that JSON escapes: V8 misreads some names with escapes, and it is the measure here. */
const stringUnit = fc.constantFrom(...'ab{}[],:1 é😀');
const repeated = fc
  .array(fc.tuple(fc.constantFrom('a', 'b', 'ab', '__proto__'), fc.json({ maxDepth: 2, stringUnit })), {
    minLength: 1,
    maxLength: 6,
  })
  .map((members) => `{${members.map(([name, value]) => `"${name}":${value}`).join()}}`);
const shuffled = fc
  .array(fc.constantFrom(...MARKS, '"a":1', '{"b":[1,2]}', '{}'), { maxLength: 16 })
  .map((parts) => parts.join(''));
const written = fc
  .tuple(fc.jsonValue({ maxDepth: 5, stringUnit }), fc.constantFrom(0, 1))
  .map(([value, indent]) => JSON.stringify(value, null, indent));
/** JSON of which one character is missing or replaced. */
const damaged = fc
  .tuple(written, fc.nat(), fc.constantFrom('', ...MARKS))
  .map(([text, at, mark]) => text.slice(0, at % text.length) + mark + text.slice((at % text.length) + 1));

function membersOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  const own = Array.isArray(value) ? 0 : Object.keys(value).length;
  return Object.values(value).reduce((sum, child) => sum + membersOf(child), own);
}

function parsedAtOnce(text: string): ParsedJson {
  const value: unknown = JSON.parse(text);
  return { value, members: membersOf(value) };
}

/** Returns the value of a text, and whether it has fewer members than the text, because an object has a name twice. */
function outcome(text: string, parse: (text: string) => ParsedJson): string {
  const sent = text.replaceAll(/"(?:\\.|[^"\\])*"/g, '').split(':').length - 1;
  try {
    const { value, members } = parse(text);
    return `${members < sent ? 'a name twice in ' : ''}${JSON.stringify(value)}`;
  } catch (error) {
    if (error instanceof SyntaxError) return 'not JSON';
    throw error;
  }
}

t.test(`a text in pieces has the value of JSON.parse, and shows names sent twice (seed ${seed})`, async (t) => {
  const text = fc.oneof(shuffled, written, repeated, damaged).map((sent) => Buffer.from(sent).toString());
  fc.assert(
    fc.property(text, fc.boolean(), fc.integer({ min: 1, max: 30 }), (sent, escapedNames, pieceBytes) => {
      const writing = { encoding: 'utf8', escapedNames } as const;
      const inPieces = (of: string) => atOnce(parseLarge(Buffer.from(of), writing, pieceBytes));
      return outcome(sent, inPieces) === outcome(sent, parsedAtOnce);
    }),
    { seed, numRuns: 10_000 },
  );
  t.pass();
});

t.test('a name with escapes is read as it is, whatever was parsed before', async (t) => {
  const victims = ['"\\u0111i\\u1ec3m":1', '"\\n":{}', '"\\"":[{"\\u0062":1}]', '"\\/x\\u0111":2,"\\u0062":false'];
  const readings = [{ điểm: 1 }, { '\n': {} }, { '"': [{ b: 1 }] }, { '/xđ': 2, b: false }];
  for (const poison of ['"\\\\":1', '"\\\\u01":1', '"\\\\/":1', '"\\\\u0":1', '"a":1,"\\\\":{}', '"a":1,"\\\\u01":1']) {
    for (const [at, victim] of victims.entries()) {
      for (const before of ['', '"a":1,', '"a":{},"b":1,']) {
        for (let time = 0; time < 3; time += 1) JSON.parse(`{${before}${poison}}`);
        const text = Buffer.from(`{${before}${victim}}`);
        const parsed = atOnce(parseJson(text, { encoding: 'latin1', escapedNames: true }));
        const expected = {
          ...(before === '' ? {} : before.includes('b') ? { a: {}, b: 1 } : { a: 1 }),
          ...readings[at],
        };
        t.strictSame(parsed.value, expected, `${text}`);
        t.strictSame(parseJsonText(`${text}`), expected);
      }
    }
  }
});

t.test('a text is parsed in so many pieces that each is short, whatever it holds', async (t) => {
  const many = (count: number, item: (n: number) => string) => Array.from({ length: count }, (_, n) => item(n)).join();
  const texts = {
    'a long list': `[${many(300_000, String)}]`,
    'a large object': `{"a":{${many(100_000, (n) => `"${n}":0`)}}}`,
    'large items': `[${many(40, () => `{"text":"${'x'.repeat(70_000)}"}`)}]`,
    'a long text': `["${'x'.repeat(200_000)}",${many(200_000, () => '[]')}]`,
  };
  for (const [name, text] of Object.entries(texts)) {
    const bytes = Buffer.from(text);
    for (const escapedNames of [false, true]) {
      let pieces = 0;
      for (const _ of parseLarge(bytes, { encoding: 'latin1', escapedNames })) pieces += 1;
      t.ok(pieces >= bytes.length / 2 ** 18, `${name}: ${pieces} pieces of ${bytes.length} bytes`);
    }
  }
});

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
