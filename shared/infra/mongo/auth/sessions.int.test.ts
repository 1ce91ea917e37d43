import t from 'tap';
import { DAY } from '#shared/kernel/time.ts';
import { freshAccount, freshSession, storeSession, storeSignedIn } from '#testing/stored/stored-accounts.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { findAccount } from './accounts.ts';
import { accounts, securityEvents, sessions, tokens } from './collections.ts';
import { setStatus } from './operator.ts';
import { changePassword, upgradePassword } from './passwords.ts';
import { endOtherSessions, endSession, liveSessions, openSession } from './sessions.ts';

const mongo = await openTestMongo(t);
const BUDGET_MS = 30_000;
const NEW = { scheme: 'bcrypt-sha256', hash: 'new' } as const;
const ACT = { operator: 'op', reason: 'a test', now: Date.now() };

const MAX_AGE_MS = 90 * DAY;

async function live(accountId: string): Promise<string[]> {
  const found = await liveSessions(mongo, accountId, { now: Date.now(), maxAgeMs: MAX_AGE_MS });
  return found.map(({ _id }) => _id);
}

t.test('live sessions are listed, and ended one by one or all but one', async (t) => {
  const { account, session: first } = await storeSignedIn(mongo);
  const accountId = account._id;
  const stranger = await storeSignedIn(mongo);
  const { session: second } = await storeSession(mongo, account);
  const { session: third } = await storeSession(mongo, account);
  const { session: expired } = await storeSession(mongo, account);
  await sessions(mongo).updateOne({ _id: expired._id }, { $set: { expiresAt: new Date(Date.now() - 1) } });
  await sessions(mongo).updateOne({ _id: second._id }, { $set: { lastUsedAt: new Date(Date.now() + 1_000) } });
  t.strictSame(await live(accountId), [second._id, third._id, first._id], 'last used first');

  const end = (sessionId: string) => endSession(mongo, { accountId, sessionId, reason: 'ENDED', maxAgeMs: MAX_AGE_MS });
  t.equal(await end(stranger.session._id), false, 'not another’s');
  t.equal(await end('unknown'), false);
  t.equal(await end(expired._id), false, 'an expired session cannot be ended');
  const ended = await Promise.all(Array.from({ length: 10 }, () => end(second._id)));
  t.equal(ended.filter((done) => done).length, 1, 'once');
  t.match(await sessions(mongo).findOne({ _id: second._id }), { endedAt: Date, endReason: 'ENDED' });
  t.strictSame(await live(accountId), [third._id, first._id]);

  t.equal(
    await endOtherSessions(mongo, { accountId, keep: third._id, reason: 'LOGOUT' }),
    1,
    'counts those that lived',
  );
  t.strictSame(await live(accountId), [third._id]);
  t.match(await sessions(mongo).findOne({ _id: second._id }), { endReason: 'ENDED' }, 'keeps its reason');
  t.equal(await endOtherSessions(mongo, { accountId, keep: null, reason: 'OPERATOR' }), 1);
  t.strictSame(await live(accountId), []);
  t.equal((await live(stranger.account._id)).length, 1);
});

t.test('a session of the maximum age is over, whatever expiry its row has', async (t) => {
  const account = freshAccount();
  const accountId = account._id;
  const { session: old } = await storeSession(mongo, account, MAX_AGE_MS);
  const { session: young } = await storeSession(mongo, account, MAX_AGE_MS - DAY);
  t.strictSame(await live(accountId), [young._id]);
  const end = (sessionId: string) => endSession(mongo, { accountId, sessionId, reason: 'ENDED', maxAgeMs: MAX_AGE_MS });
  t.equal(await end(old._id), false);
  t.equal(await end(young._id), true);
  t.equal(await endOtherSessions(mongo, { accountId, keep: null, reason: 'OPERATOR' }), 1, 'an operator ends it too');
});

t.test('a login is stored completely, and only while the verified password is current', async (t) => {
  const { account } = await storeSignedIn(mongo);
  const opened = freshSession(account);
  const passwordHash = account.password.hash;
  t.strictSame(await openSession(mongo, { ...opened, passwordHash }, BUDGET_MS), { kind: 'opened' });
  t.ok((await live(account._id)).includes(opened.session._id));
  t.match(await tokens(mongo).findOne({ _id: opened.token._id }), { sessionId: opened.session._id });
  t.match(await accounts(mongo).findOne({ _id: account._id }), { lastLoginAt: Date, updatedAt: account.updatedAt });

  const late = freshSession(account);
  t.strictSame(await openSession(mongo, { ...late, passwordHash: '$' }, BUDGET_MS), { kind: 'outdated' });
  await setStatus(mongo, { accountId: account._id, status: 'DELETED' }, ACT);
  t.strictSame(await openSession(mongo, { ...late, passwordHash }, BUDGET_MS), { kind: 'outdated' });
  t.equal(await sessions(mongo).findOne({ _id: late.session._id }), null);
  t.equal(await tokens(mongo).findOne({ _id: late.token._id }), null);
  t.strictSame(await live(account._id), []);

  const many = await storeSignedIn(mongo);
  const logins = await Promise.all(
    Array.from({ length: 30 }, () =>
      openSession(mongo, { ...freshSession(many.account), passwordHash: many.account.password.hash }, BUDGET_MS),
    ),
  );
  for (const login of logins) t.strictSame(login, { kind: 'opened' }, 'thirty logins of one account at once');
  t.equal((await live(many.account._id)).length, 31);
});

t.test('no login survives the change of its password or the deletion of its account', async (t) => {
  for (let round = 0; round < 20; round++) {
    const { account, session: own } = await storeSignedIn(mongo);
    const [accountId, from] = [account._id, account.password.hash];
    const [done] = await Promise.all([
      round % 2 === 0
        ? changePassword(mongo, { accountId, from, to: NEW, keep: own._id, now: Date.now() }, BUDGET_MS)
        : setStatus(mongo, { accountId, status: 'DELETED' }, ACT),
      ...Array.from({ length: 3 }, () =>
        openSession(mongo, { ...freshSession(account), passwordHash: from }, BUDGET_MS),
      ),
    ]);
    t.equal(done.kind, 'changed');
    t.strictSame(await live(accountId), round % 2 === 0 ? [own._id] : []);
  }
});

t.test('concurrent changes set a password once, with the end of other sessions and the event', async (t) => {
  const { account, session: own } = await storeSignedIn(mongo);
  await storeSession(mongo, account);
  await storeSession(mongo, account);
  const [accountId, from] = [account._id, account.password.hash];
  const results = await Promise.all(
    Array.from({ length: 10 }, (_, n) => {
      const to = { scheme: 'bcrypt-sha256', hash: `new-${n}` } as const;
      return changePassword(mongo, { accountId, from, to, keep: own._id, now: Date.now() }, BUDGET_MS);
    }),
  );
  const winner = results.findIndex((result) => result.kind !== 'outdated');
  t.strictSame(results[winner], { kind: 'changed', revoked: 2 });
  t.equal(results.filter((result) => result.kind === 'outdated').length, 9, 'ten changes of one password at once');
  t.match(await findAccount(mongo, accountId), { password: { hash: `new-${winner}` } });
  t.strictSame(await live(accountId), [own._id]);
  t.match(await sessions(mongo).find({ accountId, endReason: 'PASSWORD' }).toArray(), [{}, {}]);
  const events = await securityEvents(mongo).find({ accountId }).toArray();
  t.equal(events.length, 1);
  t.match(events, [{ type: 'PASSWORD_CHANGED', sessionId: own._id, metadata: { revoked: 2 } }]);

  await setStatus(mongo, { accountId, status: 'SUSPENDED' }, ACT);
  const change = { accountId, from: `new-${winner}`, to: NEW, keep: own._id, now: Date.now() };
  t.strictSame(await changePassword(mongo, change, BUDGET_MS), { kind: 'outdated' }, 'not of a suspended account');
});

t.test('a hash is upgraded once, sessions stay open, and text that begins with $ stays text', async (t) => {
  const { account, session } = await storeSignedIn(mongo, { password: { scheme: 'bcrypt', hash: '$2b$04$old' } });
  const to = { scheme: 'bcrypt-sha256', hash: '$2b$12$email' } as const;
  const results = await Promise.all(
    Array.from({ length: 10 }, () => upgradePassword(mongo, account._id, '$2b$04$old', to)),
  );
  t.equal(results.filter(({ kind }) => kind === 'upgraded').length, 1);
  t.match(await findAccount(mongo, account._id), { password: to, updatedAt: account.updatedAt });
  t.strictSame(await live(account._id), [session._id]);
});
