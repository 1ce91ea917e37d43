import t from 'tap';
import { accounts, sessions, tokens } from '#infra/mongo/auth/collections.ts';
import { HasherBusy } from '#infra/passwords/fair-queue.ts';
import type { Hasher } from '#infra/passwords/hasher.ts';
import type { SessionEnvelope } from '#shared/generated/auth.ts';
import { DAY } from '#shared/kernel/time.ts';
import { testConfig } from '#testing/actors/test-kernel.ts';
import { claimsIn } from '#testing/clients/auth-client.ts';
import { authDeps, quickHasher } from '#testing/doors/auth-door.ts';
import { storeSession, storeSignedIn } from '#testing/stored/stored-accounts.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { readMe } from './account.ts';
import type { AuthDeps } from './deps.ts';
import { newPair } from './new-session.ts';
import { endAllOtherSessions, endOneSession, listSessions, logout, refresh } from './sessions.ts';

const mongo = await openTestMongo(t);

const depsWith = (changed: Partial<Hasher> = {}) => authDeps(mongo, changed);

/** Stores an account with a session that began `ageMs` ago. `stored` reads the rows that a refresh may change. */
async function signedIn(ageMs = 0) {
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
  const { jti, refreshToken, stored } = await signedIn();
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
  const { account, refreshToken, stored } = await signedIn();
  await accounts(mongo).updateOne({ _id: account._id }, { $set: { status: 'SUSPENDED' } });
  const before = await stored();
  t.strictSame(await refreshWith(depsWith(), refreshToken), { rejected: 'AUTH_ACCOUNT_DISABLED' });
  t.strictSame(await stored(), before);
});

t.test('a refresh that finds the hasher busy changes nothing, and its token stays valid', async (t) => {
  const busy = () => Promise.reject(new HasherBusy());
  for (const method of ['hashToken', 'verifyToken'] as const) {
    const { refreshToken, stored } = await signedIn();
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
  const { account, sessionId, createdAt, refreshToken } = await signedIn(MAX_AGE_MS - left);
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
  const { account, sessionId, jti, refreshToken, stored } = await signedIn(MAX_AGE_MS);
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
  const { refreshToken, stored } = await signedIn(MAX_AGE_MS);
  const before = await stored();
  const behind = { ...depsWith(), now: () => Date.now() - 60_000 };
  t.strictSame(await refreshWith(behind, refreshToken), INVALID, 'MongoDB uses its own clock');
  t.strictSame(await stored(), before);
});
