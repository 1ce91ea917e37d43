import fc from 'fast-check';
import t from 'tap';
import { DAY } from '#shared/kernel/time.ts';
import { isLost, pairTimes, sessionEndOf } from './session.ts';

const START = Date.UTC(2026, 10, 21);

const sessionOf = (createdMs: number) => ({ createdAt: new Date(START + createdMs) });
const created = fc.nat(100_000);
const maxDays = fc.integer({ min: 1, max: 3_650 });

t.test('an access token lives 900 s and a refresh token 30 days', async (t) => {
  const times = pairTimes(sessionOf(250), new Date(START + 250), 90 * DAY);
  t.strictSame(times, { issuedAt: START, accessExpiresAt: START + 900_000, refreshExpiresAt: START + 30 * DAY });
});

t.test('tokens expire no later than their session', async (t) => {
  const times = pairTimes(sessionOf(0), new Date(START + 90 * DAY - 60_000), 90 * DAY);
  t.equal(times.accessExpiresAt, START + 90 * DAY);
  t.equal(times.refreshExpiresAt, START + 90 * DAY);
  const short = pairTimes(sessionOf(0), new Date(START), DAY);
  t.equal(short.refreshExpiresAt, START + DAY, 'a session that is shorter than a refresh token');
});

t.test('a session ends when its newest refresh token expires or at its maximum age, whichever is first', async (t) => {
  const session = { ...sessionOf(0), expiresAt: new Date(START + 30 * DAY) };
  t.strictSame(sessionEndOf(session, 90 * DAY), session.expiresAt);
  t.strictSame(sessionEndOf(session, DAY), new Date(START + DAY));
});

t.test('no token outlives the maximum age of its session, however often it is refreshed', async () => {
  // An infinite wait is cut short just before the session ends, where tokens have shorter lifetimes.
  const waits = fc.array(fc.oneof(fc.nat(29 * DAY), fc.constant(Number.POSITIVE_INFINITY)), { maxLength: 200 });
  const beforeEnd = fc.nat(2_000_000);
  fc.assert(
    fc.property(created, maxDays, waits, beforeEnd, (createdMs, days, steps, left) => {
      const [session, maxAgeMs] = [sessionOf(createdMs), days * DAY];
      const end = session.createdAt.getTime() + maxAgeMs;
      let now = session.createdAt.getTime();
      for (const wait of [0, ...steps]) {
        now = Math.min(now + wait, Math.max(now, end - left));
        if (isOver(session, now, maxAgeMs)) return now > end - 1_000;
        const { issuedAt, accessExpiresAt, refreshExpiresAt } = pairTimes(session, new Date(now), maxAgeMs);
        if ([issuedAt, accessExpiresAt, refreshExpiresAt].some((ms) => ms % 1_000 !== 0)) return false;
        if (refreshExpiresAt > end || accessExpiresAt > refreshExpiresAt || accessExpiresAt <= issuedAt) return false;
      }
      return true;
    }),
    { numRuns: 500 },
  );
});

t.test('a session is over at its maximum age, rounded down to a whole second', async () => {
  fc.assert(
    fc.property(created, maxDays, fc.integer({ min: -3_000, max: 3_000 }), (createdMs, days, offset) => {
      const session = sessionOf(createdMs);
      const end = Math.floor((session.createdAt.getTime() + days * DAY) / 1_000) * 1_000;
      return isOver(session, end + offset, days * DAY) === offset >= 0;
    }),
  );
});

/** Returns whether a session of an ACTIVE account is over at `now`, although no caller has ended it. */
function isOver(session: { createdAt: Date }, now: number, maxAgeMs: number): boolean {
  const current = { session: { ...session, endedAt: null }, account: { status: 'ACTIVE' } };
  return isLost(current as Parameters<typeof isLost>[0], new Date(now), maxAgeMs);
}
