import { Decimal } from 'decimal.js';
import fc from 'fast-check';
import t from 'tap';
import { loadSchemas } from '#infra/schema/validator.ts';
import { causeOfRequest, traceIdOf, traceparentOf, tracestateOf } from './cause.ts';
import { decimal, percentOf, roundScore, sumExactly } from './decimal.ts';
import { derivedId, isNewId, isPersonId, newId } from './ids.ts';
import { backoff, instantOf, parseInstant } from './time.ts';

t.test('sums decimals as they were written, not as binary fractions', async (t) => {
  t.equal(sumExactly([1.3, 1.3, 1.3]), 3.9);
  t.equal(sumExactly([0.1, 0.2]), 0.3);
  t.equal(sumExactly([]), 0);
  t.ok(Object.is(sumExactly([-0.5, 0.5]), 0), 'never the negative zero');
});

t.test('a sum of scores equals the sum of their whole millionths, in any order', async () => {
  const score = fc.integer({ min: -9_000_000, max: 9_000_000 });
  fc.assert(
    fc.property(fc.array(score, { maxLength: 60 }), fc.infiniteStream(fc.nat()), (millionths, shuffle) => {
      const sum = millionths.reduce((total, each) => total + BigInt(each), 0n);
      const scores = millionths.map((each) => each / 1_000_000);
      const keyed = scores.map((value) => ({ value, key: shuffle.next().value ?? 0 }));
      const others = keyed.sort((one, other) => one.key - other.key).map(({ value }) => value);
      return sumExactly(scores) === Number(sum) / 1_000_000 && sumExactly(others) === sumExactly(scores);
    }),
  );
});

t.test('rounds a score to six decimal places, and a tie to the larger magnitude', async (t) => {
  t.equal(roundScore(decimal('0.0000005')), 0.000001);
  t.equal(roundScore(decimal('0.00000049999')), 0);
  t.equal(roundScore(decimal('-0.0000005')), -0.000001);
  t.equal(roundScore(decimal('1.0000015')), 1.000002);
  t.equal(roundScore(decimal(1).dividedBy(3)), 0.333333);
  t.equal(roundScore(decimal(2).dividedBy(3)), 0.666667);
  t.ok(Object.is(roundScore(decimal('-0.0000001')), 0), 'never the negative zero');
});

t.test('does not round percentages', async (t) => {
  t.equal(percentOf(3.9, 3.9), 100);
  t.equal(percentOf(1, 3), 33.333333333333336);
  t.equal(percentOf(-1, 4), -25);
  t.equal(percentOf(0, 0), null);
});

t.test('keeps differences exact across the whole range of accepted decimals', async (t) => {
  const huge = decimal('1e800');
  const tiny = decimal('1e-800');
  t.ok(huge.plus(tiny).minus(huge).equals(tiny));
  t.ok(decimal(5e-324).times(5e-324).greaterThan(0));
});

t.test('rejects a text that is not a finite decimal, and leaves the decimal.js defaults unchanged', async (t) => {
  for (const value of [Number.NaN, Number.POSITIVE_INFINITY, 'abc', '']) t.throws(() => decimal(value));
  t.equal(Decimal.precision, 20, 'the shared constructor keeps its own precision');
});

t.test('accepts RFC 3339 timestamps with a zone', async (t) => {
  const accepted: [string, string][] = [
    ['2026-05-04T10:00:00Z', '2026-05-04T10:00:00.000Z'],
    ['2026-05-04t10:00:00.123999999z', '2026-05-04T10:00:00.123Z'],
    ['2026-05-04T10:00:00.5+07:00', '2026-05-04T03:00:00.500Z'],
    ['2026-05-04T22:00:00-07:30', '2026-05-05T05:30:00.000Z'],
    ['2024-02-29T23:59:59-00:00', '2024-02-29T23:59:59.000Z'],
    ['2000-02-29T00:00:00Z', '2000-02-29T00:00:00.000Z'],
    ['0001-01-01T00:00:00Z', '0001-01-01T00:00:00.000Z'],
    ['9999-12-31T23:59:59.999Z', '9999-12-31T23:59:59.999Z'],
  ];
  for (const [text, iso] of accepted) t.equal(parseInstant(text)?.toISOString(), iso, text);
});

t.test('rejects a text that is not an RFC 3339 timestamp with a zone and a real date', async (t) => {
  const refused = [
    '',
    'now',
    '1777777777',
    '2026-05-04',
    '2026-05-04T10:00:00',
    '2026-05-04T10:00Z',
    '2026-05-04 10:00:00Z',
    '2026-5-4T10:00:00Z',
    '2026-02-29T00:00:00Z',
    '1900-02-29T00:00:00Z',
    '2026-04-31T00:00:00Z',
    '2026-13-01T00:00:00Z',
    '2026-00-10T00:00:00Z',
    '2026-01-00T00:00:00Z',
    '2026-05-04T24:00:00Z',
    '2026-05-04T10:60:00Z',
    '2026-05-04T10:00:60Z',
    '2016-12-31T23:59:60Z',
    '2026-05-04T10:00:00+24:00',
    '2026-05-04T10:00:00+07:60',
    '2026-05-04T10:00:00+0700',
    '0000-12-31T23:59:59Z',
    '0001-01-01T00:00:00+00:01',
    '9999-12-31T23:59:59-00:01',
    '+10000-01-01T00:00:00Z',
    '2026-05-04T10:00:00.Z',
    '2026-05-04T10:00:00,5Z',
    '2026-05-04T10:00:00Z\n',
    '２026-05-04T10:00:00Z',
  ];
  for (const text of refused) t.equal(parseInstant(text), null, JSON.stringify(text));
  t.throws(() => instantOf('tomorrow'));
  t.equal(instantOf(undefined), null);
});

t.test('parses every ISO date that JavaScript writes', async () => {
  const years = {
    min: new Date('0001-01-01T00:00:00Z'),
    max: new Date('9999-12-31T23:59:59.999Z'),
    noInvalidDate: true,
  };
  fc.assert(fc.property(fc.date(years), (date) => parseInstant(date.toISOString())?.getTime() === date.getTime()));
});

const outbox = { baseMs: 5_000, capMs: 3_600_000 };

t.test('the backoff doubles from the base up to the cap', async (t) => {
  const waits = [1, 2, 3, 10, 11, 30].map((attempt) => backoff({ ...outbox, attempt, random: 0 }));
  t.strictSame(waits, [5_000, 10_000, 20_000, 2_560_000, 3_600_000, 3_600_000]);
});

t.test('jitter lengthens the backoff by at most a quarter and never exceeds the cap', async () => {
  const unit = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
  fc.assert(
    fc.property(
      fc.nat(1e6),
      fc.nat(1e9),
      fc.integer({ min: 1, max: 5_000 }),
      unit,
      (baseMs, capMs, attempt, random) => {
        const full = backoff({ baseMs, capMs, attempt, random: 0 });
        const wait = backoff({ baseMs, capMs, attempt, random });
        return Number.isSafeInteger(wait) && wait >= full && wait <= full * 1.25 && wait <= capMs;
      },
    ),
  );
});

t.test('the backoff never shrinks from one attempt to the next', async () => {
  fc.assert(
    fc.property(fc.nat(200), fc.double({ min: 0, max: 1, noNaN: true }), (attempt, random) => {
      const wait = backoff({ ...outbox, attempt, random });
      return backoff({ ...outbox, attempt: attempt + 1, random }) >= wait;
    }),
  );
});

t.test('jitter spreads the retries of commands that failed together', async (t) => {
  const waits = [0, 0.25, 0.5, 0.999].map((random) => backoff({ ...outbox, attempt: 5, random }));
  t.equal(new Set(waits).size, 4);
});

t.test('the backoff clamps numbers that are out of range', async (t) => {
  t.equal(backoff({ baseMs: 100, capMs: 1_000, attempt: 0, random: 7 }), 125);
  t.equal(backoff({ baseMs: -1, capMs: 1_000, attempt: 3, random: 0 }), 0);
});

const PARENT = '01a2059e-79b6-7fd1-826e-3a08970562b0';

t.test('a part of a stored object keeps its id for ever', async (t) => {
  // Ids that clients have received. Other values would be ids of parts that no client knows.
  t.equal(derivedId(PARENT, 'question:0'), '01a2059e-79b6-7875-a849-2c9d75cde4ff');
  t.equal(derivedId(PARENT, 'event:17'), '01a2059e-79b6-7b9d-8d0e-3b39065cdc11');
  t.equal(derivedId('not hexadecimal', 'question:0'), '00000000-0000-75b2-a148-dd230dceb0b5');
  t.equal(derivedId('01a2', 'câu hỏi'), '01a20000-0000-72aa-9eeb-2f282521055b');
});

t.test('new and derived ids are UUIDs of version 7', async (t) => {
  const moments = fc.integer({ min: 0, max: 2 ** 48 - 1 });
  fc.assert(
    fc.property(moments, fc.string(), (now, name) => isNewId(newId(now)) && isNewId(derivedId(newId(now), name))),
  );
  t.equal(newId(0x01_9a_bc_de_f0_12).slice(0, 13), '019abcde-f012', 'they begin with the time');
  t.not(newId(1), newId(1));
});

t.test('the parts of one parent, and one part of two parents, have different ids', async (t) => {
  const ids = [PARENT, newId()].flatMap((parent) => [0, 1].map((n) => derivedId(parent, `question:${n}`)));
  t.equal(new Set(ids).size, 4);
});

const schemaFaults = loadSchemas().validator('common/person-id');

t.test('the ids of common identity providers are ids of persons', async (t) => {
  for (const id of [
    'student-1',
    'auth0|5f7c',
    'google-oauth2|1',
    'a+b@x.vn',
    'u/1',
    '{6f9619ff-8b86}',
    'dGVzdA==',
    '~',
  ]) {
    t.ok(isPersonId(id), id);
  }
  for (const id of ['', 'p 1', 'x\n', 'é', 'a,b', 'a"b', '\u202ea', 'x'.repeat(129), 1, null])
    t.notOk(isPersonId(id), `${id}`);
});

t.test('bodies and headers accept the same ids', async () => {
  const text = fc.oneof(fc.string({ unit: 'binary', maxLength: 130 }), fc.stringMatching(/^[ -~]{0,129}$/));
  fc.assert(fc.property(text, (id) => isPersonId(id) === (schemaFaults(id).length === 0)));
});

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const SPAN = '00f067aa0ba902b7';
const TRACEPARENT = `00-${TRACE}-${SPAN}-01`;

t.test('reads a traceparent of version 00 as it is', async (t) => {
  t.equal(traceparentOf(TRACEPARENT), TRACEPARENT);
  t.equal(traceparentOf(` ${TRACEPARENT}\t`), TRACEPARENT, 'optional white space is no part of a value');
  t.equal(traceIdOf({ traceparent: TRACEPARENT }), TRACE);
});

t.test('reads a traceparent of a later version as one of version 00', async (t) => {
  t.equal(traceparentOf(`cc-${TRACE}-${SPAN}-01-what-the-future-brings`), TRACEPARENT);
  t.equal(traceparentOf(`cc-${TRACE}-${SPAN}-fe`), `00-${TRACE}-${SPAN}-00`, 'only the sampled flag is known');
});

t.test('ignores a malformed traceparent', async (t) => {
  const malformed = [
    undefined,
    '',
    [TRACEPARENT, TRACEPARENT],
    `${TRACEPARENT}, ${TRACEPARENT}`,
    `ff-${TRACE}-${SPAN}-01`,
    `00-${'0'.repeat(32)}-${SPAN}-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
    TRACEPARENT.toUpperCase(),
    `${TRACEPARENT}-more`,
    `cc-${TRACE}-${SPAN}-01.more`,
    TRACEPARENT.slice(0, -1),
    `00-${TRACE.slice(1)}-${SPAN}-01`,
    `00-${TRACE}-${SPAN}-01"\n`,
  ];
  for (const header of malformed) t.equal(traceparentOf(header), undefined, JSON.stringify(header));
});

t.test('accepts a short and valid tracestate', async (t) => {
  t.equal(tracestateOf('rojo=00f067aa0ba902b7'), 'rojo=00f067aa0ba902b7');
  t.equal(tracestateOf('congo=t61, ,t-1@vendor=a b\t,'), 'congo=t61,t-1@vendor=a b', 'empty members are dropped');
});

t.test('drops a tracestate that is long or malformed', async (t) => {
  const many = Array.from({ length: 33 }, (_, index) => `k${index}=v`).join();
  for (const header of ['', ',', 'key', '=v', 'Key=v', 'k=', 'k=a=b', 'k=1,k=2', 'k=ä', many, `k=${'v'.repeat(600)}`]) {
    t.equal(tracestateOf(header), undefined, header.slice(0, 20));
  }
});

t.test('takes the cause of a request from its id and headers', async (t) => {
  const traced = { traceparent: TRACEPARENT, tracestate: 'rojo=1' };
  t.strictSame(causeOfRequest('r1', traced), { requestId: 'r1', ...traced });
  t.strictSame(causeOfRequest('r1', { traceparent: TRACEPARENT, tracestate: 'ROJO' }), {
    requestId: 'r1',
    traceparent: TRACEPARENT,
  });
  t.strictSame(causeOfRequest('r1', { tracestate: 'rojo=1' }), { requestId: 'r1' }, 'a state belongs to a parent');
  t.equal(traceIdOf(causeOfRequest('r1', {})), undefined);
});
