import fc from 'fast-check';
import t from 'tap';
import { backoff, instantOf, parseInstant } from './time.ts';

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
