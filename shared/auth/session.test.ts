import fc from 'fast-check';
import t from 'tap';
import { DAY } from '#shared/kernel/time.ts';
import type { Account } from './account.ts';
import {
  checkRefresh,
  isLost,
  type PresentedRefresh,
  pairTimes,
  REUSE_GRACE_MS,
  type RefreshToken,
  type Session,
  sessionEndOf,
} from './session.ts';

const START = Date.UTC(2026, 10, 21);

const sessionOf = (createdMs: number) => ({ createdAt: new Date(START + createdMs) });
const created = fc.nat(100_000);
const maxDays = fc.integer({ min: 1, max: 3_650 });

/** Returns whether a session of an ACTIVE account is over at `now`, although no caller has ended it. */
function isOver(session: { createdAt: Date }, now: number, maxAgeMs: number): boolean {
  const current = { session: { ...session, endedAt: null }, account: { status: 'ACTIVE' } };
  return isLost(current as Parameters<typeof isLost>[0], new Date(now), maxAgeMs);
}

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

const NOW = new Date('2026-11-21T08:00:00.000Z');
const at = (ms: number) => new Date(NOW.getTime() + ms);
const MAX_AGE_MS = 90 * DAY;

const TOKEN: RefreshToken = {
  _id: 'jti',
  sessionId: 'sid',
  accountId: 'acc',
  hash: 'h',
  issuedAt: at(-60_000),
  expiresAt: at(1),
  consumedAt: null,
  successorId: null,
};
const SESSION: Session = {
  _id: 'sid',
  accountId: 'acc',
  userAgent: null,
  createdAt: at(-60_000),
  lastUsedAt: at(-60_000),
  expiresAt: at(1),
  endedAt: null,
  endReason: null,
};
const ACCOUNT: Account = {
  _id: 'acc',
  accountCode: 'ACC-00000000',
  email: 'a@b.vn',
  phone: null,
  hasPhone: false,
  legacyId: null,
  hasLegacyId: false,
  fullName: 'An',
  role: 'STUDENT',
  status: 'ACTIVE',
  memberships: [],
  defaultOrganizationId: 'local',
  password: { scheme: 'bcrypt', hash: 'h' },
  createdAt: NOW,
  updatedAt: NOW,
};
const judge = (more: Partial<PresentedRefresh>) =>
  checkRefresh({ token: TOKEN, session: SESSION, account: ACCOUNT, ...more }, NOW, MAX_AGE_MS);

const INVALID = { kind: 'refused', rejection: { rejected: 'AUTH_INVALID_TOKEN' } };
const DISABLED = { kind: 'refused', rejection: { rejected: 'AUTH_ACCOUNT_DISABLED' } };

t.test('only an unused refresh token of a live session and an active account may be exchanged', async (t) => {
  t.strictSame(judge({}), { kind: 'rotate', token: TOKEN, session: SESSION, account: ACCOUNT });
  t.strictSame(judge({ token: { ...TOKEN, expiresAt: NOW } }), INVALID, 'at the very instant it is over');
  t.strictSame(judge({ session: { ...SESSION, endedAt: at(-1), endReason: 'LOGOUT' } }), INVALID);
  const begunBefore = (ms: number) => judge({ session: { ...SESSION, createdAt: at(-ms) } });
  t.match(begunBefore(MAX_AGE_MS - 1_000), { kind: 'rotate' }, 'in the last second of its session');
  t.strictSame(begunBefore(MAX_AGE_MS), INVALID, 'at the latest end of its session');
  t.strictSame(begunBefore(MAX_AGE_MS - 999), INVALID, 'a token could not live a whole second');
  t.strictSame(judge({ account: { ...ACCOUNT, status: 'DELETED' } }), INVALID);
  t.strictSame(judge({ account: { ...ACCOUNT, status: 'SUSPENDED' } }), DISABLED);
});

t.test('a used refresh token is only refused for ten seconds and then reported as reused', async (t) => {
  const usedToken = (msAgo: number) => ({ ...TOKEN, consumedAt: at(-msAgo), successorId: 'next' });
  const used = (msAgo: number, more: Partial<PresentedRefresh> = {}) => judge({ token: usedToken(msAgo), ...more });
  const reused = (msAgo: number) => ({ kind: 'reused', token: usedToken(msAgo) });
  t.strictSame(used(0), INVALID);
  t.strictSame(used(-5), INVALID, 'clocks are not alike to the millisecond');
  t.strictSame(used(REUSE_GRACE_MS), INVALID);
  t.strictSame(used(REUSE_GRACE_MS + 1), reused(REUSE_GRACE_MS + 1));
  t.strictSame(
    used(60_000, { account: { ...ACCOUNT, status: 'SUSPENDED' } }),
    reused(60_000),
    'whatever became of the account',
  );
  t.strictSame(used(60_000, { account: { ...ACCOUNT, status: 'DELETED' } }), INVALID);
  t.strictSame(used(60_000, { session: { ...SESSION, endedAt: at(-1), endReason: 'REUSE' } }), INVALID, 'only once');
  t.strictSame(judge({ token: { ...TOKEN, consumedAt: at(-60_000), expiresAt: NOW } }), INVALID);
  t.strictSame(
    used(60_000, { session: { ...SESSION, createdAt: at(-MAX_AGE_MS) } }),
    INVALID,
    'the session is past its maximum age',
  );
});
