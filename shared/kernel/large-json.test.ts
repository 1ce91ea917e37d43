import fc from 'fast-check';
import t from 'tap';
import { parseLarge } from './large-json.ts';
import { atOnce } from './pieces.ts';

const seed = Date.now() & 0x7fffffff;

/** Parts of JSON in any order, most of which are not JSON together. */
const MARKS = ['{', '}', '[', ']', ',', ':', ' ', '\n', '1', 'null', '"a"', '"é"', '"\\""', '"__proto__"', '"', 'x'];
const shuffled = fc
  .array(fc.constantFrom(...MARKS, '{"b":[1,2]}', '{}'), { maxLength: 16 })
  .map((parts) => parts.join(''));
const written = fc
  .tuple(fc.jsonValue({ maxDepth: 5 }), fc.constantFrom(0, 1))
  .map(([value, indent]) => JSON.stringify(value, null, indent));
/** JSON of which one character is missing or replaced. */
const damaged = fc
  .tuple(written, fc.nat(), fc.constantFrom('', ...MARKS))
  .map(([text, at, mark]) => text.slice(0, at % text.length) + mark + text.slice((at % text.length) + 1));

function outcome(parse: () => unknown): string {
  try {
    return JSON.stringify(parse());
  } catch (error) {
    if (error instanceof SyntaxError) return 'not JSON';
    throw error;
  }
}

t.test(`a text in pieces of any size has the value of JSON.parse, or none (seed ${seed})`, async (t) => {
  fc.assert(
    fc.property(fc.oneof(shuffled, written, damaged), fc.integer({ min: 1, max: 30 }), (text, pieceBytes) => {
      const large = outcome(() => atOnce(parseLarge(Buffer.from(text), 'utf8', pieceBytes)));
      return large === outcome(() => JSON.parse(Buffer.from(text).toString()));
    }),
    { seed, numRuns: 10_000 },
  );
  t.pass();
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
    let pieces = 0;
    for (const _ of parseLarge(bytes, 'latin1')) pieces += 1;
    t.ok(pieces >= bytes.length / 2 ** 18, `${name}: ${pieces} pieces of ${bytes.length} bytes`);
  }
});
