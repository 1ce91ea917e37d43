import fc from 'fast-check';
import t from 'tap';
import { isRejection } from '#shared/kernel/errors.ts';
import { MAX_MEMBERS } from '#shared/kernel/large-json.ts';
import { atOnce } from '#shared/kernel/pieces.ts';
import { parseBody } from './json.ts';
import { scanJson } from './json-scan.ts';

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
