import t from 'tap';
import { OPERATOR_AUDIT } from '#infra/mongo/operator-audit.ts';
import { storeSession, storeSignedIn } from '#testing/stored/stored-accounts.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { findAccount } from './accounts.ts';
import { sessions } from './collections.ts';
import { makeAdmin, setPassword, setStatus, signOut, unlockAccount } from './operator.ts';
import { newestSecurityEvents } from './sessions.ts';
import { recordFailure, reserveLoginAttempt, throttleKey } from './throttle.ts';

const mongo = await openTestMongo(t);
const ACT = { operator: 'binh', reason: 'a test', now: Date.now() };

const audit = (subject: string) =>
  mongo.db.collection(OPERATOR_AUDIT).find({ subject }).sort({ $natural: 1 }).toArray();
const reasons = async (accountId: string) =>
  (await sessions(mongo).find({ accountId }).sort({ _id: 1 }).toArray()).map(({ endReason }) => endReason);

t.test('a status changes once, with its sessions, event and audit line', async (t) => {
  const { account } = await storeSignedIn(mongo);
  const accountId = account._id;
  await storeSession(mongo, account);
  const set = (status: 'ACTIVE' | 'SUSPENDED' | 'DELETED') => setStatus(mongo, { accountId, status }, ACT);
  const clicks = await Promise.all(Array.from({ length: 10 }, () => set('SUSPENDED')));
  t.strictSame(
    clicks.filter(({ kind }) => kind !== 'unchanged'),
    [{ kind: 'changed', ended: 0 }],
  );
  t.strictSame(await reasons(accountId), [null, null], 'sessions of a suspended account do not end');
  const detail = { from: 'ACTIVE', to: 'SUSPENDED', ended: 0 };
  const line = { action: 'account.status', operator: 'binh', reason: 'a test', detail };
  t.match(await audit(accountId), [line]);
  t.equal((await audit(accountId)).length, 1);
  t.match(await newestSecurityEvents(mongo, accountId, 5), [{ type: 'STATUS_CHANGED', metadata: detail }]);
  t.strictSame(await set('ACTIVE'), { kind: 'changed', ended: 0 });
  t.strictSame(await set('DELETED'), { kind: 'changed', ended: 2 });
  t.strictSame(await reasons(accountId), ['OPERATOR', 'OPERATOR']);
  t.strictSame(await set('ACTIVE'), { kind: 'deleted' });
  t.match(await findAccount(mongo, accountId), { status: 'DELETED' });
  t.strictSame(await setStatus(mongo, { accountId: 'nobody', status: 'DELETED' }, ACT), { kind: 'unchanged' });
  t.equal((await audit(accountId)).length, 3);
});

t.test('an account becomes ADMIN once, also in the membership of its default organization', async (t) => {
  const membership = { organizationName: 'X', role: 'STUDENT', status: 'ACTIVE' } as const;
  const memberships = [
    { ...membership, organizationId: 'local' },
    { ...membership, organizationId: 'other' },
  ];
  const { account } = await storeSignedIn(mongo, { memberships });
  const clicks = await Promise.all(Array.from({ length: 5 }, () => makeAdmin(mongo, account._id, ACT)));
  t.equal(clicks.filter(({ kind }) => kind === 'promoted').length, 1);
  t.match(await findAccount(mongo, account._id), {
    role: 'ADMIN',
    memberships: [{ role: 'ADMIN' }, { organizationId: 'other', role: 'STUDENT' }],
  });
  t.match(await audit(account._id), [{ action: 'account.make-admin', detail: { from: 'STUDENT', to: 'ADMIN' } }]);
  t.strictSame(await makeAdmin(mongo, 'nobody', ACT), { kind: 'unchanged' });
});

t.test('setting a password ends all sessions and clears the login throttle', async (t) => {
  const { account } = await storeSignedIn(mongo);
  const key = throttleKey(account.email);
  for (let n = 0; n < 9; n++) await recordFailure(mongo, key);
  const to = { scheme: 'bcrypt-sha256', hash: '$2b$12$set' } as const;
  t.equal(await setPassword(mongo, account, to, ACT), 1);
  t.match(await findAccount(mongo, account._id), { password: to });
  t.strictSame(await reasons(account._id), ['OPERATOR']);
  t.match(await reserveLoginAttempt(mongo, key, Date.now()), { kind: 'granted' });
  const lines = await audit(account._id);
  t.match(lines, [{ action: 'account.set-password', detail: { ended: 1 } }]);
  t.notMatch(JSON.stringify(lines), 'set"', 'no hash in the audit');
});

t.test('unlocking clears failures, also of an e-mail without account, and signing out ends sessions', async (t) => {
  const { account } = await storeSignedIn(mongo);
  const wanted = { email: account.email, accountId: account._id };
  const none = { email: 'nobody@school.vn', accountId: null };
  t.equal(await unlockAccount(mongo, none, ACT), false, 'there is nothing to forget');
  t.strictSame(await audit(throttleKey(none.email)), []);
  await recordFailure(mongo, throttleKey(account.email));
  t.equal(await unlockAccount(mongo, wanted, ACT), true);
  t.match(await audit(account._id), [{ action: 'account.unlock', detail: { failures: 1 } }]);
  await recordFailure(mongo, throttleKey('nobody@school.vn'));
  t.equal(await unlockAccount(mongo, none, ACT), true);
  t.match(await audit(throttleKey('nobody@school.vn')), [{ action: 'account.unlock' }]);

  t.equal(await signOut(mongo, account._id, ACT), 1);
  t.strictSame(await reasons(account._id), ['OPERATOR']);
  t.match((await audit(account._id)).slice(-1), [{ action: 'account.end-sessions', detail: { ended: 1 } }]);
});
