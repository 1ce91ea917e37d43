import t from 'tap';
import { accounts } from '#infra/mongo/auth/collections.ts';
import { upgradePassword } from '#infra/mongo/auth/passwords.ts';
import type { Hasher } from '#infra/passwords/hasher.ts';
import type { Account, StoredPassword } from '#shared/auth/account.ts';
import { authCall, authDeps, quickHasher } from '#testing/doors/auth-door.ts';
import { storeSignedIn } from '#testing/stored/stored-accounts.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { changePassword } from './account.ts';

const mongo = await openTestMongo(t);
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
