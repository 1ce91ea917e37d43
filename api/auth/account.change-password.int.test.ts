import t from 'tap';
import type { Call } from '#api/route.ts';
import { openSigner } from '#infra/jwt/signer.ts';
import { openMetrics } from '#infra/metrics/metrics.ts';
import { accounts } from '#infra/mongo/auth/collections.ts';
import { upgradePassword } from '#infra/mongo/auth/passwords.ts';
import { openKeyedHash } from '#infra/net/keyed-hash.ts';
import { type Hasher, openHasher } from '#infra/passwords/hasher.ts';
import type { Account, StoredPassword } from '#shared/auth/account.ts';
import { testConfig } from '#testing/actors/test-kernel.ts';
import { storeSignedIn } from '#testing/stored/stored-accounts.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { changePassword } from './account.ts';
import { openAuthCounts } from './counts.ts';
import { openLoginEvidence } from './login-evidence.ts';

const mongo = await openTestMongo(t);
const hasher = openHasher({ passwordCost: 4, tokenCost: 4, concurrency: 2 });
const [CURRENT, NEXT] = ['the current password', 'một mật khẩu khác hẳn'];

interface Change {
  /** Runs between the check of the current password and the change. */
  meanwhile?: (account: Account) => Promise<unknown>;
  currentPassword?: string;
  newPassword?: string;
}

/** Changes a password. `checked` counts the checks of the current one. */
async function change({ meanwhile, currentPassword = CURRENT, newPassword = NEXT }: Change) {
  const { account, session } = await storeSignedIn(mongo, { password: await hasher.hashPassword(CURRENT) });
  let checked = 0;
  const interrupted: Hasher = {
    ...hasher,
    async hashPassword(text): Promise<StoredPassword> {
      await meanwhile?.(account);
      return hasher.hashPassword(text);
    },
    verifyPassword(...password) {
      checked += 1;
      return hasher.verifyPassword(...password);
    },
  };
  const secret = { secret: 'x'.repeat(32), previousSecrets: [], issuer: 'examhall' };
  const reply = await changePassword(
    {
      mongo,
      hasher: interrupted,
      now: Date.now,
      settings: testConfig().auth,
      isCommonPassword: () => false,
      signer: openSigner({ ...secret, now: Date.now }),
      strangerTurns: {
        look: async () => ({ spacingMs: 0, waitMs: 0 }),
        take: async () => 0,
        failed: async () => undefined,
        succeeded: async () => undefined,
        close: async () => undefined,
      },
      addressOf: ({ peer }) => peer,
      endStreams: () => undefined,
      counts: openAuthCounts(openMetrics({ process: false })),
      evidence: openLoginEvidence({ mongo, now: Date.now, hash: openKeyedHash('x') }),
    },
    {
      requestId: 'r',
      params: {},
      query: {},
      headers: {},
      peer: '203.0.113.7',
      identity: { session: { accountId: account._id, sessionId: session._id } },
      body: { currentPassword, newPassword },
      signal: AbortSignal.timeout(60_000),
      stop: AbortSignal.timeout(60_000),
    } satisfies Call,
  );
  const stored = await accounts(mongo).findOne({ _id: account._id });
  return { reply, checked, isChanged: await hasher.verifyPassword(newPassword, stored?.password ?? null) };
}

t.test('a password change succeeds although a concurrent login rehashes the current password', async (t) => {
  const { reply, isChanged } = await change({
    meanwhile: async ({ _id, password }) =>
      upgradePassword(mongo, _id, password.hash, await hasher.hashPassword(CURRENT)),
  });
  t.match(reply, { status: 200, data: { revoked: 0 } });
  t.equal(isChanged, true);
});

t.test('a password change that loses a race gets the reason', async (t) => {
  const set = (fields: object) => (account: Account) =>
    accounts(mongo).updateOne({ _id: account._id }, { $set: fields });
  for (const [fields, code] of [
    [{ password: await hasher.hashPassword('somebody was faster') }, 'AUTH_INVALID_CREDENTIALS'],
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
