import t from 'tap';
import { DAY } from '#shared/kernel/time.ts';
import type { Account } from './account.ts';
import { checkRefresh, type PresentedRefresh, REUSE_GRACE_MS, type RefreshToken, type Session } from './session.ts';

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
