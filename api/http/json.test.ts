import fc from 'fast-check';
import t from 'tap';
import { isRejection } from '#shared/kernel/errors.ts';
import { MAX_MEMBERS } from '#shared/kernel/large-json.ts';
import { atOnce } from '#shared/kernel/pieces.ts';
import { fractionOf, isAtMost, sizeOf } from '#testing/fractions.ts';
import { parseBody, scanJson } from './json.ts';

const parsedAtOnce = (text: string | Uint8Array) => atOnce(parseBody(Buffer.from(text as string)));

function depthOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}

function membersOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  const own = Array.isArray(value) ? 0 : Object.keys(value).length;
  return Object.values(value).reduce((sum, child) => sum + membersOf(child), own);
}

const MARKS = '\u0301'.repeat(31);
const hasRun = (text: string) => /\p{M}{31}/u.test(text);

function needsWalk(value: unknown): boolean {
  if (typeof value === 'string') return !value.isWellFormed() || hasRun(value);
  if (typeof value !== 'object' || value === null) return false;
  return Object.entries(value).some(
    ([key, child]) =>
      key === '__proto__' || key === 'constructor' || key.includes('\0') || needsWalk(key) || needsWalk(child),
  );
}

const seed = Date.now() & 0x7fffffff;
const rawString = fc.string({ unit: 'binary', maxLength: 12 });
const texts = fc.oneof(
  fc.json(),
  fc.json({ stringUnit: 'binary' }),
  fc
    .dictionary(fc.oneof(rawString, fc.constantFrom('__proto__', 'constructor', 'prototype', MARKS)), fc.jsonValue())
    .map((value) => JSON.stringify(value)),
  fc
    .tuple(fc.integer(), fc.integer({ min: -400, max: 400 }))
    .map(([mantissa, exponent]) => `[${mantissa}e${exponent}]`),
  fc
    .array(fc.constantFrom(MARKS, '\u0301'.repeat(16), '\u{1e8d0}'.repeat(30), 'a', 'ễ', '漢'), { maxLength: 5 })
    .map((parts) => JSON.stringify([parts.join('')])),
);

t.test(`the scan counts depth exactly and finds every text that needs a walk (seed ${seed})`, async (t) => {
  fc.assert(
    fc.property(texts, (text) => {
      const bytes = Buffer.from(text);
      const value: unknown = JSON.parse(bytes.toString());
      const scan = atOnce(scanJson(bytes, 1_000));
      return (
        scan.depth === depthOf(value) &&
        scan.members >= membersOf(value) &&
        (scan.suspicious || !needsWalk(value)) &&
        scan.ascii === bytes.every((byte) => byte < 0x80)
      );
    }),
    { seed, numRuns: 3_000 },
  );
  t.pass();
});

t.test(`an accepted body has the value that JSON.parse returns (seed ${seed})`, async (t) => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 5, stringUnit: 'grapheme' }), fc.boolean(), (value, pretty) => {
      const text = JSON.stringify(value, null, pretty ? 2 : 0);
      const parsed = parsedAtOnce(text);
      if (isRejection(parsed)) return text.includes('__proto__') || text.includes('constructor');
      // Large numbers of more than 15 digits are refused.
      return (
        (parsed.faults.length === 0 || /\d{16}|e\+/.test(text)) &&
        JSON.stringify(parsed.value, null, pretty ? 2 : 0) === text
      );
    }),
    { seed, numRuns: 1_000 },
  );
  t.pass();
});

t.test(`parseBody never throws, whatever the bytes (seed ${seed})`, async (t) => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
      parsedAtOnce(bytes);
    }),
    { seed, numRuns: 3_000 },
  );
  t.pass();
});

t.test('parseBody accepts depth 64 and refuses 65; brackets in strings do not count', async (t) => {
  t.notOk(isRejection(parsedAtOnce('['.repeat(64) + ']'.repeat(64))));
  t.match(parsedAtOnce('['.repeat(65) + ']'.repeat(65)), { rejected: 'INVALID_JSON' });
  t.notOk(isRejection(parsedAtOnce(JSON.stringify(['['.repeat(100), '\\"[[{{']))), 'in strings');
});

t.test('parseBody refuses a run of marks in every text and name, except in the fields that may have one', async (t) => {
  const value = {
    kept: MARKS,
    deep: { kept: MARKS, 'x/y': [`a${MARKS}`, 'a'] },
    [`n${MARKS}`]: 1,
    thirty: MARKS.slice(1),
    escaped: 'a',
  };
  const text = JSON.stringify(value).replace('"escaped":"a"', `"escaped":"${'\\u0301'.repeat(31)}"`);
  const parsed = atOnce(parseBody(Buffer.from(text), ['/kept', '/deep/none']));
  const row = 'more than 30 combining marks in a row';
  t.strictSame(isRejection(parsed) ? [] : parsed.faults, [
    { path: '/deep/kept', message: `must not contain ${row}` },
    { path: '/deep/x~1y/0', message: `must not contain ${row}` },
    { path: `/n${MARKS}`, message: `must have a name without ${row}` },
    { path: '/escaped', message: `must not contain ${row}` },
  ]);
});

t.test('parseBody names a giant member by its beginning', async (t) => {
  const parsed = parsedAtOnce(JSON.stringify({ [MARKS.repeat(1_000)]: 1 }));
  t.match(isRejection(parsed) ? [] : parsed.faults, [{ path: `/${MARKS.repeat(5).slice(0, 128)}...` }]);
});

t.test('parseBody returns at most as many faults as an envelope holds', async (t) => {
  const parsed = parsedAtOnce(`[${'1e999,'.repeat(5_000)}0]`);
  t.equal(isRejection(parsed) ? 0 : parsed.faults.length, 1_000);
});

t.test('an object has at most as many members as one step over them may take', async (t) => {
  const members = (count: number) => Array.from({ length: count }, (_, index) => `"${index}":0`).join();
  t.notOk(isRejection(parsedAtOnce(`{${members(MAX_MEMBERS)}}`)));
  t.match(parsedAtOnce(`{"a":[{${members(MAX_MEMBERS + 1)}}]}`), {
    rejected: 'INVALID_JSON',
    message: /133000 members/,
  });
});

t.test('a body is read as it was sent, whatever names another caller has sent before', async (t) => {
  const read = (text: string) => {
    const result = parsedAtOnce(text);
    if (isRejection(result)) throw new Error(result.rejected);
    return result.value;
  };
  for (let time = 0; time < 3; time += 1) read('{"data":1,"\\\\u01":1}');
  t.strictSame(read('{"data":1,"\\u0111i\\u1ec3m":1}'), { data: 1, điểm: 1 });
  for (let time = 0; time < 3; time += 1) read('{"text":1,"\\\\":1}');
  t.strictSame(read('{"text":1,"\\n":1}'), { text: 1, '\n': 1 });
  t.strictSame(read('{"text":1,"\\"":1}'), { text: 1, '"': 1 });
});

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
