import fc from 'fast-check';
import t from 'tap';
import { backoff } from './time.ts';

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
