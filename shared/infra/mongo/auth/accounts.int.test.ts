import t from 'tap';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import { OPERATOR_AUDIT } from '#infra/mongo/operator-audit.ts';
import { freshAccount, freshSession, storeSession, storeSignedIn } from '#testing/stored/stored-accounts.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { findAccount, findAccountByEmail, importAccount, insertAccount } from './accounts.ts';
import { accounts, sessions, tokens } from './collections.ts';
import { makeAdmin, setPassword, setStatus, signOut, unlockAccount } from './operator.ts';
import { newestSecurityEvents } from './sessions.ts';
import { recordFailure, reserveLoginAttempt, throttleKey } from './throttle.ts';

const mongo = await openTestMongo(t);
const CROWD = 50;
const BUDGET_MS = 30_000;

const register = (overrides: Parameters<typeof freshAccount>[0]) => {
  const account = freshAccount(overrides);
  return insertAccount(mongo, { account, ...freshSession(account) }, BUDGET_MS);
};

const INSERTED = { kind: 'inserted' };
const duplicate = (field: string) => ({ kind: 'duplicate', field });

/** Returns the numbers of accounts that `filter` finds, of their sessions and of their tokens. */
async function rowsOf(filter: object) {
  const found = await accounts(mongo).find(filter).toArray();
  const ids = { accountId: { $in: found.map(({ _id }) => _id) } };
  return [
    found.length,
    (await sessions(mongo).find(ids).toArray()).length,
    (await tokens(mongo).find(ids).toArray()).length,
  ];
}

/** Returns the number of sessions and tokens that belong to no account. */
async function orphans(): Promise<number> {
  const known = new Set((await accounts(mongo).find({}).toArray()).map(({ _id }) => _id));
  const rows = [...(await sessions(mongo).find({}).toArray()), ...(await tokens(mongo).find({}).toArray())];
  return rows.filter(({ accountId }) => !known.has(accountId)).length;
}

t.test('fifty concurrent registers of one e-mail create one complete account', async (t) => {
  const email = 'an@school.vn';
  const results = await Promise.all(Array.from({ length: CROWD }, () => register({ email })));
  t.equal(results.filter((result) => result.kind === 'inserted').length, 1);
  t.equal(results.filter((result) => result.kind === 'duplicate' && result.field === 'email').length, CROWD - 1);
  t.strictSame(await rowsOf({ email }), [1, 1, 1]);
  t.equal(await orphans(), 0, 'the others left nothing');
});

t.test('fifty concurrent registers of one phone create one complete account', async (t) => {
  const phone = '+84912345678';
  const results = await Promise.all(Array.from({ length: CROWD }, () => register({ phone })));
  t.equal(results.filter((result) => result.kind === 'inserted').length, 1);
  t.equal(results.filter((result) => result.kind === 'duplicate' && result.field === 'phone').length, CROWD - 1);
  t.strictSame(await rowsOf({ phone }), [1, 1, 1]);
  t.equal(await orphans(), 0, 'the others left nothing');
});

t.test('accounts without a phone or a legacy id never collide', async (t) => {
  const results = await Promise.all(Array.from({ length: CROWD }, () => register({ fullName: 'No Phone' })));
  for (const result of results) t.strictSame(result, INSERTED);
  t.strictSame(await rowsOf({ fullName: 'No Phone' }), [CROWD, CROWD, CROWD]);
});

t.test('a refused register names the taken value, the e-mail first', async (t) => {
  const first = freshAccount({ phone: '+84900000001', legacyId: 'L-1' });
  await accounts(mongo).insertOne(first);
  const { email, phone, accountCode, legacyId } = first;
  t.strictSame(await register({ phone, email }), duplicate('email'));
  t.strictSame(await register({ accountCode, email }), duplicate('email'));
  t.strictSame(await register({ phone }), duplicate('phone'));
  t.strictSame(await register({ accountCode }), duplicate('code'));
  t.strictSame(await register({ legacyId }), duplicate('legacyId'));
  t.match(await findAccountByEmail(mongo, email), { _id: first._id });
  t.match(await findAccount(mongo, first._id), { email });
  t.equal(await findAccountByEmail(mongo, 'nobody@school.vn'), null);
});

t.test('a duplicate session id is thrown and not reported as a taken e-mail', async (t) => {
  const { account, session, token } = await storeSignedIn(mongo);
  const other = freshAccount();
  const fault = await insertAccount(mongo, { account: other, session, token }, BUDGET_MS).catch(
    (error: unknown) => error,
  );
  t.ok(isDuplicateKey(fault), 'a duplicate session id is thrown');
  t.equal(await findAccount(mongo, other._id), null, 'the account is rolled back');
  t.ok(await findAccount(mongo, account._id));
});

t.test('an import stores an account once and never takes over the e-mail of another one', async (t) => {
  const account = freshAccount({ legacyId: 'L-2', email: 'binh@school.vn' });
  const again = (overrides: object) => importAccount(mongo, { ...freshAccount(overrides) });
  const results = await Promise.all(
    Array.from({ length: CROWD }, () => again({ legacyId: 'L-2', email: 'binh@school.vn' })),
  );
  t.equal(results.filter((result) => result.kind === 'inserted').length, 1);
  t.equal(results.filter((result) => result.kind === 'known').length, CROWD - 1);
  t.strictSame(await again({ legacyId: 'L-3', email: account.email }), duplicate('email'));
  t.strictSame(await again({ email: account.email }), duplicate('email'));
  t.strictSame(await again({ legacyId: 'L-2' }), duplicate('legacyId'));
  t.strictSame(await again({ email: 'chi@school.vn' }), INSERTED);
  t.strictSame(await again({ email: 'chi@school.vn' }), { kind: 'known' }, 'without a legacy id as well');
  t.strictSame(await register({ email: 'dung@school.vn' }), INSERTED);
  t.strictSame(
    await again({ email: 'dung@school.vn' }),
    duplicate('email'),
    'the e-mail belongs to the registered account',
  );
  t.strictSame(await rowsOf({ email: account.email }), [1, 0, 0], 'an import creates no session');
});

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
