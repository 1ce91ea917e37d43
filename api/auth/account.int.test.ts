import t from 'tap';
import { accounts, knownPairs, sessions, tokens } from '#infra/mongo/auth/collections.ts';
import { upgradePassword } from '#infra/mongo/auth/passwords.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { HasherBusy } from '#infra/passwords/fair-queue.ts';
import type { Hasher } from '#infra/passwords/hasher.ts';
import { openAddressTurns } from '#infra/redis/address-turns.ts';
import type { Account, StoredPassword } from '#shared/auth/account.ts';
import type { RegisterRequest, SessionEnvelope } from '#shared/generated/auth.ts';
import { isRejection } from '#shared/kernel/errors.ts';
import { DAY, HOUR, SECOND } from '#shared/kernel/time.ts';
import { testConfig } from '#testing/actors/test-kernel.ts';
import { captureLog } from '#testing/captured-log.ts';
import { claimsIn, newEmail, PASSWORD } from '#testing/clients/auth-client.ts';
import { authCall, authDeps, quickHasher } from '#testing/doors/auth-door.ts';
import { storeSession, storeSignedIn } from '#testing/stored/stored-accounts.ts';
import { faultyMongo } from '#testing/stores/faulty-mongo.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { changePassword, readMe, register } from './account.ts';
import type { AuthDeps } from './deps.ts';
import { newPair } from './new-session.ts';
import { endAllOtherSessions, endOneSession, listSessions, logout, refresh } from './sessions.ts';

const mongo = await openTestMongo(t);

function registerOn(mongo: Mongo, email: string) {
  const body: RegisterRequest = { email, password: PASSWORD, fullName: 'Nguyễn Văn An' };
  return register(authDeps(mongo), authCall(body));
}

t.test('a registration makes the account and its address a known pair', async (t) => {
  t.match(await registerOn(mongo, newEmail()), { status: 201 });
  t.equal(await knownPairs(mongo).countDocuments({}), 1);
});

t.test('a registration that is committed is answered although the known pair cannot be stored', async (t) => {
  const email = newEmail();
  const broken = faultyMongo(mongo, { method: 'updateOne', how: 'refused', times: 1 });
  t.match(await registerOn(broken.mongo, email), { status: 201, data: { user: { email } } });
  t.equal(broken.left(), 0);
  t.equal(await accounts(mongo).countDocuments({ email }), 1);
});

const [SCHOOL, HOME] = ['203.0.113.7', '198.51.100.1'];

/** A front door whose turns have a clock that a test moves. */
function slowingDoor() {
  const clock = { now: Date.now() };
  const turns = openAddressTurns({ redisUrl: 'redis://127.0.0.1:1', log: captureLog(), now: () => clock.now });
  t.teardown(turns.close);
  const deps = { ...authDeps(mongo), registrationTurns: turns.registrations };
  async function registerFrom(peer: string, more: Partial<RegisterRequest> = {}): Promise<number | string> {
    const body: RegisterRequest = { email: newEmail(), password: PASSWORD, fullName: 'Nguyễn Văn An', ...more };
    const reply = await register({ ...deps, addressOf: () => peer }, authCall(body));
    return isRejection(reply) ? `${reply.rejected} ${Math.ceil(reply.retryAfter ?? 0)}` : reply.status;
  }
  return { clock, turns, registerFrom };
}

// Before: 98 accounts in 12 s from one address, and no limit.
t.test('beyond sixty registrations in an hour an address has one a second, and no other address waits', async (t) => {
  const { clock, registerFrom } = slowingDoor();
  for (let n = 0; n < 60; n++) t.equal(await registerFrom(SCHOOL), 201);
  t.equal(await registerFrom(SCHOOL), 201, 'the first turn is free');
  t.equal(await registerFrom(SCHOOL), 'AUTH_THROTTLED 1');
  t.equal(await registerFrom(HOME), 201);
  clock.now += SECOND;
  t.equal(await registerFrom(SCHOOL), 201);
  t.equal(await registerFrom(SCHOOL), 'AUTH_THROTTLED 1');
  clock.now += HOUR;
  for (let n = 0; n < 3; n++) t.equal(await registerFrom(SCHOOL), 201);
});

// Before: twelve e-mails a second could be probed without end.
t.test(
  'an address that probes which e-mails or phones are taken is slowed, and learns nothing when refused',
  async (t) => {
    const { registerFrom, turns, clock } = slowingDoor();
    const { account } = await storeSignedIn(mongo, { email: newEmail(), phone: '+84912345678', hasPhone: true });
    const [email, phone] = [account.email, '0912345678'];
    for (let n = 0; n < 5; n++) t.equal(await registerFrom(SCHOOL, { email }), 'AUTH_EMAIL_TAKEN 0');
    for (let n = 0; n < 5; n++) t.equal(await registerFrom(SCHOOL, { phone }), 'AUTH_PHONE_TAKEN 0');
    for (let n = 0; n < 54; n++) await turns.registrations.failed(SCHOOL, `another e-mail ${n}`);
    t.equal(await registerFrom(SCHOOL, { email }), 'AUTH_EMAIL_TAKEN 0', 'a repeat of one e-mail counts once');
    for (const more of [{ email }, { phone }, {}]) t.equal(await registerFrom(SCHOOL, more), 'AUTH_THROTTLED 1');
    clock.now += SECOND;
    t.equal(await registerFrom(SCHOOL), 201);
  },
);

t.test('a registration whose line is full costs Redis nothing', async (t) => {
  const deps = authDeps(mongo, { hasRoom: () => false });
  let looks = 0;
  const look = async () => {
    looks += 1;
    return { spacingMs: 0, waitMs: 0 };
  };
  const body: RegisterRequest = { email: newEmail(), password: PASSWORD, fullName: 'Nguyễn Văn An' };
  const full = { ...deps, registrationTurns: { ...deps.registrationTurns, look } };
  await t.rejects(register(full, authCall(body)), HasherBusy);
  t.equal(looks, 0);
});

const [CURRENT, NEXT] = ['the current password', 'một mật khẩu khác hẳn'];

interface Change {
  /** Runs between the check of the current password and the change. */
  meanwhile?: (account: Account) => Promise<unknown>;
  currentPassword?: string;
  newPassword?: string;
}

/** Changes a password. `checked` counts the checks of the current one. */
async function change({ meanwhile, currentPassword = CURRENT, newPassword = NEXT }: Change) {
  const { account, session } = await storeSignedIn(mongo, { password: await quickHasher.hashPassword(CURRENT) });
  let checked = 0;
  const interrupted: Hasher = {
    ...quickHasher,
    async hashPassword(text): Promise<StoredPassword> {
      await meanwhile?.(account);
      return quickHasher.hashPassword(text);
    },
    verifyPassword(...password) {
      checked += 1;
      return quickHasher.verifyPassword(...password);
    },
  };
  const identity = { session: { accountId: account._id, sessionId: session._id } };
  const call = authCall({ currentPassword, newPassword }, identity);
  const reply = await changePassword(authDeps(mongo, interrupted), call);
  const stored = await accounts(mongo).findOne({ _id: account._id });
  return { reply, checked, isChanged: await quickHasher.verifyPassword(newPassword, stored?.password ?? null) };
}

t.test('a password change succeeds although a concurrent login rehashes the current password', async (t) => {
  const { reply, isChanged } = await change({
    meanwhile: async ({ _id, password }) =>
      upgradePassword(mongo, _id, password.hash, await quickHasher.hashPassword(CURRENT)),
  });
  t.match(reply, { status: 200, data: { revoked: 0 } });
  t.equal(isChanged, true);
});

t.test('a password change that loses a race gets the reason', async (t) => {
  const set = (fields: object) => (account: Account) =>
    accounts(mongo).updateOne({ _id: account._id }, { $set: fields });
  for (const [fields, code] of [
    [{ password: await quickHasher.hashPassword('somebody was faster') }, 'AUTH_INVALID_CREDENTIALS'],
    [{ status: 'SUSPENDED' }, 'AUTH_ACCOUNT_DISABLED'],
    [{ status: 'DELETED' }, 'AUTH_INVALID_TOKEN'],
  ] as const) {
    t.match(await change({ meanwhile: set(fields) }), { reply: { rejected: code }, isChanged: false }, code);
  }
});

t.test('a weak new password is refused before a wrong current one is checked', async (t) => {
  const [weak, wrong] = [{ newPassword: 'kurz' }, { currentPassword: 'another password' }];
  const both = await change({ ...weak, ...wrong });
  t.match(both, { reply: { rejected: 'AUTH_WEAK_PASSWORD', details: [{ path: '/newPassword' }] }, checked: 0 });
  t.equal(both.isChanged, false);
  t.match(await change(weak), { reply: { rejected: 'AUTH_WEAK_PASSWORD' }, checked: 0, isChanged: false });
  t.match(await change(wrong), { reply: { rejected: 'AUTH_INVALID_CREDENTIALS' }, isChanged: false });
});

const depsWith = (changed: Partial<Hasher> = {}) => authDeps(mongo, changed);

/** Stores an account with a session that began `ageMs` ago. `stored` reads the rows that a refresh may change. */
async function openedSession(ageMs = 0) {
  const { account, session, token } = await storeSignedIn(mongo);
  const made = newPair(depsWith(), session, new Date());
  const createdAt = new Date(session.createdAt.getTime() - ageMs);
  await sessions(mongo).updateOne({ _id: session._id }, { $set: { createdAt } });
  await tokens(mongo).deleteOne({ _id: token._id });
  const row = await made.stored;
  await tokens(mongo).insertOne(row);
  const stored = async () => [
    await tokens(mongo).find({ sessionId: session._id }).toArray(),
    await sessions(mongo).findOne({ _id: session._id }),
  ];
  return { account, sessionId: session._id, createdAt, jti: row._id, refreshToken: made.refreshToken, stored };
}

const CALL = {
  requestId: 'r',
  query: {},
  headers: {},
  peer: '203.0.113.7',
  signal: AbortSignal.timeout(60_000),
  stop: AbortSignal.timeout(60_000),
};
const callWith = (refreshToken: string) => ({ ...CALL, params: {}, identity: {}, body: { refreshToken } });
/** Returns a call with a valid access token of the session. */
const callOf = (session: { accountId: string; sessionId: string }, params: Record<string, string> = {}) => ({
  ...CALL,
  params,
  identity: { session },
  body: {},
});
const refreshWith = (deps: AuthDeps, refreshToken: string) => refresh(deps, callWith(refreshToken));

t.test('a token with our signature that is not the stored one is refused and changes nothing', async (t) => {
  const { jti, refreshToken, stored } = await openedSession();
  await tokens(mongo).updateOne({ _id: jti }, { $set: { hash: await quickHasher.hashToken('another') } });
  const before = await stored();
  t.strictSame(await refreshWith(depsWith(), refreshToken), { rejected: 'AUTH_INVALID_TOKEN' });
  t.strictSame(await stored(), before);
  t.match(
    await logout(depsWith(), callWith(refreshToken)),
    { data: { revoked: false } },
    'the token does not log out either',
  );
  t.strictSame(await stored(), before);
});

t.test('a suspended account’s refresh is refused and changes nothing', async (t) => {
  const { account, refreshToken, stored } = await openedSession();
  await accounts(mongo).updateOne({ _id: account._id }, { $set: { status: 'SUSPENDED' } });
  const before = await stored();
  t.strictSame(await refreshWith(depsWith(), refreshToken), { rejected: 'AUTH_ACCOUNT_DISABLED' });
  t.strictSame(await stored(), before);
});

t.test('a refresh that finds the hasher busy changes nothing, and its token stays valid', async (t) => {
  const busy = () => Promise.reject(new HasherBusy());
  for (const method of ['hashToken', 'verifyToken'] as const) {
    const { refreshToken, stored } = await openedSession();
    const before = await stored();
    await t.rejects(refreshWith(depsWith({ [method]: busy }), refreshToken), HasherBusy, method);
    t.strictSame(await stored(), before, method);
    t.match(await refreshWith(depsWith(), refreshToken), { status: 200, data: { tokenType: 'Bearer' } });
    t.strictSame(await refreshWith(depsWith(), refreshToken), { rejected: 'AUTH_INVALID_TOKEN' }, 'once');
  }
});

const MAX_AGE_MS = testConfig().auth.sessionMaxMs;
const INVALID = { rejected: 'AUTH_INVALID_TOKEN' };

t.test('a refresh near the end of a session returns tokens that expire with it', async (t) => {
  const left = 600_000;
  const { account, sessionId, createdAt, refreshToken } = await openedSession(MAX_AGE_MS - left);
  const end = Math.floor((createdAt.getTime() + MAX_AGE_MS) / 1_000);
  const refreshed = await refreshWith(depsWith(), refreshToken);
  t.match(refreshed, { status: 200, data: { expiresIn: Number } });
  const { accessToken, refreshToken: next, expiresIn } = (refreshed as { data: SessionEnvelope }).data;
  const [access, successor] = [claimsIn(accessToken), claimsIn(next)];
  t.strictSame([access.exp, successor.exp], [end, end]);
  t.equal(expiresIn, end - access.iat);
  t.ok(expiresIn <= left / 1_000, 'less than the 900 seconds of another day');
  const expiresAt = new Date(end * 1_000);
  t.match(await sessions(mongo).findOne({ _id: sessionId }), { expiresAt }, 'the row goes when the session does');
  t.match(await tokens(mongo).findOne({ _id: successor.jti }), { expiresAt });
  t.match(await listSessions(depsWith(), callOf({ accountId: account._id, sessionId })), {
    data: { sessions: [{ id: sessionId, expiresAt: expiresAt.toISOString() }] },
  });
});

t.test('a session at its maximum age has ended, even if a later end is stored', async (t) => {
  const { account, sessionId, jti, refreshToken, stored } = await openedSession(MAX_AGE_MS);
  const { session: other } = await storeSession(mongo, account);
  const before = await stored();
  const deps = depsWith();
  t.strictSame(await refreshWith(deps, refreshToken), INVALID);
  const own = { accountId: account._id, sessionId };
  for (const ask of [readMe, listSessions, endAllOtherSessions]) t.strictSame(await ask(deps, callOf(own)), INVALID);
  t.match(await logout(deps, callWith(refreshToken)), { data: { revoked: false } });
  const fromOther = { accountId: account._id, sessionId: other._id };
  t.match(await listSessions(deps, callOf(fromOther)), { data: { sessions: { length: 1, 0: { id: other._id } } } });
  t.strictSame(await endOneSession(deps, callOf(fromOther, { sessionId })), { rejected: 'SESSION_NOT_FOUND' });
  t.strictSame(await stored(), before, 'nothing was written');

  const longer = { ...deps, settings: { ...deps.settings, sessionMaxMs: MAX_AGE_MS + DAY } };
  t.match(await refreshWith(longer, refreshToken), { status: 200 }, 'the setting decides, at every use');
  t.not((await tokens(mongo).findOne({ _id: jti }))?.consumedAt, null);
});

t.test('a door whose clock is behind cannot extend a session past its end', async (t) => {
  const { refreshToken, stored } = await openedSession(MAX_AGE_MS);
  const before = await stored();
  const behind = { ...depsWith(), now: () => Date.now() - 60_000 };
  t.strictSame(await refreshWith(behind, refreshToken), INVALID, 'MongoDB uses its own clock');
  t.strictSame(await stored(), before);
});
