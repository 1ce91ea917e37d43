import fc from 'fast-check';
import t from 'tap';
import { isRejection } from '#shared/kernel/errors.ts';
import { atOnce } from '#shared/kernel/pieces.ts';
import { fractionOf, isAtMost, sizeOf } from '#testing/fractions.ts';
import { parseBody } from './json.ts';

const seed = Date.now() & 0x7fffffff;

/** A JSON text with what it holds: the pointers of numbers that no double holds, and whether an object has a member twice. */
interface Sent {
  text: string;
  unfit: string[];
  isTwice: boolean;
}

const parsed = (text: string) => atOnce(parseBody(Buffer.from(text)));

/** Returns the paths of the faults of a text, or the code of its refusal. */
function faultsOf(text: string): string[] | string {
  const result = parsed(text);
  return isRejection(result) ? result.rejected : result.faults.map(({ path }) => path);
}

/** Returns true if a number is too long, too large or too small for a double, by its written digits. */
function isUnfit(text: string): boolean {
  const value = Number(text);
  const [mantissa = ''] = text.toLowerCase().split('e');
  const digits = mantissa.replaceAll(/[-.]/g, '').replace(/^0+/, '').replace(/0+$/, '').length;
  if (digits === 0) return false;
  if (!Number.isFinite(value) || value === 0 || digits > 17) return true;
  return digits > 15 && !isAtMost(sizeOf(fractionOf(text)), fractionOf(Number.MAX_SAFE_INTEGER));
}

const some = (of: string, size: number) => fc.string({ unit: fc.constantFrom(...of), maxLength: size });
const wholePart = fc.oneof(
  fc.constant('0'),
  fc.tuple(fc.constantFrom(...'123456789'), some('0123456789', 18), some('0', 6)).map((parts) => parts.join('')),
  fc.constantFrom('9007199254740990', '9007199254740991', '9007199254740992', '1', '12'),
);
const part = fc.oneof(
  fc.constant(''),
  fc.tuple(some('0', 20), some('0123456789', 19), some('0', 4)).map(([...parts]) => `.${parts.join('') || '0'}`),
  fc.constantFrom(...[...'123456789'].map((digit) => `.${digit}`)),
);
const exponent = fc.oneof(
  fc.constant(''),
  fc.tuple(fc.constantFrom('e', 'E', 'e+', 'e-', 'E-00'), fc.nat(420)).map((parts) => parts.join('')),
);
const number = fc
  .tuple(fc.constantFrom('', '-'), wholePart, part, exponent)
  .map((parts) => parts.join(''))
  .map((text): Sent => ({ text, unfit: isUnfit(text) ? [''] : [], isTwice: false }));
const other = fc
  .oneof(
    fc.jsonValue({ maxDepth: 0 }).filter((value) => typeof value !== 'number'),
    fc.constantFrom('12345678901234567890', '1e999', '"a":1,"a":2', '\\"', ':'),
  )
  .map((value): Sent => ({ text: JSON.stringify(value), unfit: [], isTwice: false }));
const space = some(' \n\t\r', 2);

/** Writes a name as `JSON.stringify` does, or each of its characters as an escape. */
function written(name: string, isEscaped: boolean): string {
  if (!isEscaped) return JSON.stringify(name);
  const units = Array.from({ length: name.length }, (_, at) => name.charCodeAt(at).toString(16).padStart(4, '0'));
  return `"${units.map((unit) => `\\u${unit}`).join('')}"`;
}

const name = fc.oneof(
  fc.constantFrom('a', 'b', 'ab', 'a/b', 'a~b', '', '"', '7', 'đ'),
  fc.string({ unit: 'grapheme', maxLength: 4 }),
);

const { body } = fc.letrec<{ body: Sent }>((tie) => ({
  body: fc.oneof(
    { maxDepth: 4 },
    fc.oneof(number, other),
    fc.tuple(fc.array(tie('body'), { maxLength: 5 }), space).map(
      ([items, gap]): Sent => ({
        text: `[${gap}${items.map(({ text }) => text).join(`,${gap}`)}]`,
        unfit: items.flatMap(({ unfit }, index) => unfit.map((path) => `/${index}${path}`)),
        isTwice: items.some(({ isTwice }) => isTwice),
      }),
    ),
    fc
      .tuple(fc.array(fc.tuple(name, fc.boolean(), tie('body')), { maxLength: 4 }), space)
      .filter(([members]) => members.every(([key]) => key !== '__proto__' && key !== 'constructor'))
      .map(([members, gap]): Sent => {
        const texts = members.map(([key, isEscaped, { text }]) => `${written(key, isEscaped)}${gap}:${gap}${text}`);
        return {
          text: `{${gap}${texts.join(`${gap},`)}${gap}}`,
          unfit: members.flatMap(([key, , { unfit }]) =>
            unfit.map((path) => `/${key.replaceAll('~', '~0').replaceAll('/', '~1')}${path}`),
          ),
          isTwice:
            members.some(([, , inner]) => inner.isTwice) || new Set(members.map(([key]) => key)).size < members.length,
        };
      }),
  ),
}));

t.test(`names the numbers that no double holds, and refuses members sent twice (seed ${seed})`, async (t) => {
  fc.assert(
    fc.property(body, ({ text, unfit, isTwice }) => {
      const expected = isTwice ? 'INVALID_JSON' : unfit;
      return JSON.stringify(faultsOf(text)) === JSON.stringify(expected);
    }),
    { seed, numRuns: 5_000 },
  );
  t.pass();
});

t.test(`does so in a body that is parsed in pieces (seed ${seed})`, async (t) => {
  const far = JSON.stringify('x'.repeat(17_000));
  fc.assert(
    fc.property(fc.array(body, { minLength: 1, maxLength: 9 }), fc.option(fc.nat(12)), (values, repeated) => {
      // Each member fills a piece, so that the second of two members is in another one.
      const named = values.map(({ text }, index) => `"m${index}":[${text},${far}]`);
      const again = repeated === null ? [] : [`"m${repeated}":0`];
      const text = `{"far":[${Array.from({ length: 15 }, () => far).join()}],${[...named, ...again].join()}}`;
      const isTwice = values.some((value) => value.isTwice) || (repeated !== null && repeated < values.length);
      const unfit = values.flatMap(({ unfit }, index) => unfit.map((path) => `/m${index}/0${path}`));
      return JSON.stringify(faultsOf(text)) === JSON.stringify(isTwice ? 'INVALID_JSON' : unfit);
    }),
    { seed, numRuns: 100 },
  );
  t.pass();
});

t.test('counts significant digits without the zeros at the end', async (t) => {
  for (const fit of [
    '6.02e23',
    '2.8e16',
    '28000000000000000000000',
    '9007199254740991',
    '-9007199254740991.000',
    '0.30000000000000004',
    '1.6666666666666667',
    '0.000000000000000000000012345678901234567',
    '5e-324',
    '0e999',
    '1.50000000000000000000000000',
  ]) {
    t.strictSame(faultsOf(`{"a":[${fit}]}`), [], fit);
  }
  for (const unfit of [
    '100000000000000000001',
    '98765432109876543210',
    '9007199254740992',
    '-9007199254740993',
    '9007199254740991.1',
    '0.123456789012345678',
    '1e999',
    '-1e309',
    '1e-400',
    '1'.repeat(400),
  ]) {
    t.strictSame(faultsOf(`{"a":[${unfit}]}`), ['/a/0'], unfit);
  }
});

t.test('the same name is the same however it is written', async (t) => {
  t.equal(faultsOf('{"a":1,"\\u0061":2}'), 'INVALID_JSON');
  t.equal(faultsOf('{"x":{"role":"A","role":"B"}}'), 'INVALID_JSON');
  t.equal(faultsOf('{"__proto__":1,"__proto__":2}'), 'INVALID_JSON');
  t.strictSame(faultsOf('{"a":{"a":[{"a":1},{"a":2}]},"A":1}'), [], 'in another object, or in another case');
  t.match(parsed('{"a":1,"a":2}'), { message: /twice/ });
});
