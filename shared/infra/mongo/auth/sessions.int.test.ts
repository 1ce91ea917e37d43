import t from 'tap';
import { checkRefresh } from '#shared/auth/session.ts';
import { DAY } from '#shared/kernel/time.ts';
import {
  claimsOf,
  freshAccount,
  freshSession,
  freshToken,
  type SignedIn,
  storeSession,
  storeSignedIn,
} from '#testing/stored/stored-accounts.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { findAccount } from './accounts.ts';
import { accounts, securityEvents, sessions, tokens } from './collections.ts';
import { setStatus } from './operator.ts';
import { changePassword, upgradePassword } from './passwords.ts';
import {
  endOtherSessions,
  endSession,
  findRefresh,
  liveSessions,
  openSession,
  reportReuse,
  rotateToken,
} from './sessions.ts';

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

const LATER = new Date(Date.now() + 40 * DAY);

function rotate({ session, token }: Omit<SignedIn, 'account'>, successor = freshToken(session, { expiresAt: LATER })) {
  return rotateToken(mongo, { presented: token._id, sessionId: session._id, successor }, BUDGET_MS);
}

const tokensOf = (sessionId: string) => tokens(mongo).find({ sessionId }).sort({ _id: 1 }).toArray();

const REFUSED = { kind: 'refused', rejection: { rejected: 'AUTH_INVALID_TOKEN' } };

/** Applies the rules to a token as it is stored. A missing token is refused with the same code. */
async function verdict(token: Parameters<typeof claimsOf>[0]) {
  const found = await findRefresh(mongo, claimsOf(token));
  return found.kind === 'missing' ? REFUSED : checkRefresh(found, new Date(), MAX_AGE_MS);
}

t.test('a rotation consumes the token, stores its successor and extends the session', async (t) => {
  const login = await storeSignedIn(mongo);
  t.match(await verdict(login.token), { kind: 'rotate' });
  const successor = freshToken(login.session, { expiresAt: LATER });
  t.strictSame(await rotate(login, successor), { kind: 'rotated' });
  t.match(await tokensOf(login.session._id), [
    { _id: login.token._id, consumedAt: Date, successorId: successor._id },
    { _id: successor._id, consumedAt: null, successorId: null },
  ]);
  const session = await sessions(mongo).findOne({ _id: login.session._id });
  t.match(session, { expiresAt: LATER, endedAt: null });
  t.ok(session !== null && session.lastUsedAt.getTime() >= login.session.lastUsedAt.getTime());
  t.match(await verdict(successor), { kind: 'rotate' });
  t.strictSame(await rotate(login), { kind: 'lost' }, 'once');
});

t.test('a hundred concurrent rotations of one token store one successor', async (t) => {
  const login = await storeSignedIn(mongo);
  const results = await Promise.all(Array.from({ length: 100 }, () => rotate(login)));
  t.equal(results.filter((result) => result.kind === 'rotated').length, 1);
  t.equal(results.filter((result) => result.kind === 'lost').length, 99);
  const [first, successor, ...more] = await tokensOf(login.session._id);
  t.strictSame(more, []);
  t.equal(first?.successorId, successor?._id);
});

t.test('an expired, unknown or foreign token and one of an ended session are not rotated', async (t) => {
  const login = await storeSignedIn(mongo);
  const other = await storeSignedIn(mongo);
  const expired = freshToken(login.session, { expiresAt: new Date(Date.now() - 1) });
  await tokens(mongo).insertOne(expired);
  t.strictSame(await rotate({ ...login, token: expired }), { kind: 'lost' }, 'expired by the clock of MongoDB');
  t.strictSame(await rotate({ ...login, token: freshToken(login.session) }), { kind: 'lost' }, 'unknown');
  t.strictSame(await rotate({ token: login.token, session: other.session }), { kind: 'lost' }, 'of another session');
  const dead = freshToken(login.session, { expiresAt: new Date(Date.now() - 1) });
  t.strictSame(await rotate(login, dead), { kind: 'lost' }, 'for a successor that its session would not outlive');
  t.equal(
    await endSession(mongo, {
      accountId: login.account._id,
      sessionId: login.session._id,
      reason: 'LOGOUT',
      maxAgeMs: MAX_AGE_MS,
    }),
    true,
  );
  t.strictSame(await rotate(login), { kind: 'lost' }, 'a token of an ended session');
  t.match(await tokens(mongo).findOne({ _id: login.token._id }), { consumedAt: null }, 'the token is not consumed');
  t.equal((await tokensOf(login.session._id)).length, 2, 'no successor is stored');
  t.equal((await tokensOf(other.session._id)).length, 1);
});

t.test('a session that is ended during a refresh has no token that a refresh accepts', async (t) => {
  const ends = {
    endSession: ({ account, session }: SignedIn) =>
      endSession(mongo, { accountId: account._id, sessionId: session._id, reason: 'ENDED', maxAgeMs: MAX_AGE_MS }),
    endOtherSessions: ({ account }: SignedIn) =>
      endOtherSessions(mongo, { accountId: account._id, keep: null, reason: 'ENDED' }),
    setStatus: ({ account }: SignedIn) =>
      setStatus(mongo, { accountId: account._id, status: 'DELETED' }, { operator: 'o', reason: 'r', now: Date.now() }),
    async changePassword({ account }: SignedIn) {
      const keep = (await storeSession(mongo, account)).session._id;
      const to = { scheme: 'bcrypt-sha256', hash: 'new' } as const;
      const change = { accountId: account._id, from: account.password.hash, to, keep, now: Date.now() };
      return changePassword(mongo, change, BUDGET_MS);
    },
    reportReuse: ({ token }: SignedIn) => reportReuse(mongo, token, Date.now(), BUDGET_MS),
  };
  for (const [name, end] of Object.entries(ends)) {
    const outcomes = [];
    for (let round = 0; round < 12; round++) {
      const login = await storeSignedIn(mongo);
      const successor = freshToken(login.session);
      const [rotated] = await Promise.all([rotate(login, successor), end(login)]);
      outcomes.push(rotated.kind);
      t.match(await sessions(mongo).findOne({ _id: login.session._id }), { endedAt: Date }, name);
      t.strictSame(await verdict(successor), REFUSED, name);
      t.equal((await tokensOf(login.session._id)).length, rotated.kind === 'rotated' ? 2 : 1, 'nothing half');
    }
    t.comment(`${name}: ${outcomes.join(' ')}`);
  }
});

t.test('twenty concurrent reports of one reuse end the session once, with one event', async (t) => {
  const login = await storeSignedIn(mongo);
  const other = await storeSession(mongo, login.account);
  await rotate(login);
  const consumed = await tokens(mongo).findOne({ _id: login.token._id });
  if (consumed === null) throw new Error('the token is gone');
  const reports = await Promise.all(
    Array.from({ length: 20 }, () => reportReuse(mongo, consumed, Date.now(), BUDGET_MS)),
  );
  t.equal(reports.filter((ended) => ended).length, 1);
  t.match(await sessions(mongo).findOne({ _id: login.session._id }), { endedAt: Date, endReason: 'REUSE' });
  t.match(await sessions(mongo).findOne({ _id: other.session._id }), { endedAt: null }, 'other sessions go on');
  const events = await securityEvents(mongo).find({ accountId: login.account._id }).toArray();
  t.equal(events.length, 1);
  t.match(events, [{ type: 'REFRESH_REUSE', sessionId: login.session._id, metadata: { tokenId: consumed._id } }]);
  t.equal(await reportReuse(mongo, consumed, Date.now()), false);
});

t.test('a refresh token is found with its own session and account only', async (t) => {
  const [an, binh] = [await storeSignedIn(mongo), await storeSignedIn(mongo)];
  const own = { jti: an.token._id, sid: an.session._id, sub: an.account._id };
  t.strictSame(claimsOf(an.token), own);
  t.match(await findRefresh(mongo, own), { kind: 'found', ...an });
  const foreign = { jti: binh.token._id, sid: binh.session._id, sub: binh.account._id };
  const { jti, sid, sub } = foreign;
  for (const other of [{ jti }, { sid }, { sub }, { sid, sub }, { jti, sub }, { jti, sid }]) {
    t.strictSame(await findRefresh(mongo, { ...own, ...other }), { kind: 'missing' }, Object.keys(other).join());
  }
  t.strictSame(await findRefresh(mongo, { jti: 'x', sid: 'y', sub: 'z' }), { kind: 'missing' });
});

t.test('a refresh token is missing without its row, its session or its account', async (t) => {
  const lose = [
    ({ token }: SignedIn) => tokens(mongo).deleteOne({ _id: token._id }),
    ({ session }: SignedIn) => sessions(mongo).deleteOne({ _id: session._id }),
    ({ account }: SignedIn) => accounts(mongo).deleteOne({ _id: account._id }),
  ];
  for (const loseOne of lose) {
    const login = await storeSignedIn(mongo);
    await loseOne(login);
    t.strictSame(await findRefresh(mongo, claimsOf(login.token)), { kind: 'missing' });
  }
});
