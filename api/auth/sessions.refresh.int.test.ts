import t from 'tap';
import { openSigner } from '#infra/jwt/signer.ts';
import { accounts, sessions, tokens } from '#infra/mongo/auth/collections.ts';
import { type Hasher, HasherBusy, openHasher } from '#infra/passwords/hasher.ts';
import { testConfig } from '#testing/actors/test-kernel.ts';
import { storeSignedIn } from '#testing/stored/stored-accounts.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import type { AuthDeps } from './deps.ts';
import { newToken } from './new-session.ts';
import { logout, refresh } from './sessions.ts';

const mongo = await openTestMongo(t);
const hasher = openHasher({ passwordCost: 4, tokenCost: 4, concurrency: 2, maxWaiting: 10 });

function depsWith(changed: Partial<Hasher> = {}): AuthDeps {
  const secret = { secret: 'x'.repeat(32), previousSecrets: [], issuer: 'examhall' };
  return {
    mongo,
    hasher: { ...hasher, ...changed },
    now: Date.now,
    settings: testConfig().auth,
    signer: openSigner({ ...secret, accessSeconds: 900, refreshSeconds: 900, now: Date.now }),
    addressFailures: { isOver: async () => false, record: async () => undefined, close: async () => undefined },
    addressOf: (peer) => peer,
    isCommonPassword: () => false,
  };
}

/** A signed-in account, its refresh token, and what of it a refresh may change. */
async function signedIn() {
  const { account, session, token } = await storeSignedIn(mongo);
  const made = newToken(depsWith(), { accountId: account._id, sessionId: session._id });
  await tokens(mongo).deleteOne({ _id: token._id });
  const row = await made.stored;
  await tokens(mongo).insertOne(row);
  const stored = async () => [
    await tokens(mongo).find({ sessionId: session._id }).toArray(),
    await sessions(mongo).findOne({ _id: session._id }),
  ];
  return { account, jti: row._id, refreshToken: made.refreshToken, stored };
}

const callWith = (refreshToken: string) => ({
  requestId: 'r',
  params: {},
  query: {},
  headers: {},
  peer: '203.0.113.7',
  identity: {},
  body: { refreshToken },
  signal: AbortSignal.timeout(60_000),
});
const refreshWith = (deps: AuthDeps, refreshToken: string) => refresh(deps, callWith(refreshToken));

t.test('a token that is signed with our key and is not the stored one changes nothing', async (t) => {
  const { jti, refreshToken, stored } = await signedIn();
  await tokens(mongo).updateOne({ _id: jti }, { $set: { hash: await hasher.hashToken('another') } });
  const before = await stored();
  t.strictSame(await refreshWith(depsWith(), refreshToken), { rejected: 'AUTH_INVALID_TOKEN' });
  t.strictSame(await stored(), before);
  t.match(await logout(depsWith(), callWith(refreshToken)), { data: { revoked: false } }, 'nor does it log out');
  t.strictSame(await stored(), before);
});

t.test('a suspended account’s refresh changes nothing, whoever looks first', async (t) => {
  const { account, refreshToken, stored } = await signedIn();
  await accounts(mongo).updateOne({ _id: account._id }, { $set: { status: 'SUSPENDED' } });
  const before = await stored();
  t.strictSame(await refreshWith(depsWith(), refreshToken), { rejected: 'AUTH_ACCOUNT_DISABLED' });
  t.strictSame(await stored(), before);
});

t.test('where there is no time for a hash nothing changes, and the token is good for later', async (t) => {
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
