import t from 'tap';
import { setPassword } from '#infra/mongo/auth/operator.ts';
import { MINUTE } from '#shared/kernel/time.ts';
import { authClient, claimsIn, newEmail, PASSWORD } from '#testing/clients/auth-client.ts';
import { openStream } from '#testing/clients/open-stream.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { callExamhall, runExamhall } from '#testing/processes/run-examhall.ts';
import { requiredEnv } from '#testing/stores/open-test-mongo.ts';
import { until } from '#testing/until.ts';

const cluster = await startCluster(t, {
  inside: true,
  apart: ['accountnotices'],
  doors: 2,
  workers: ['accountnotices'],
  ownNotifications: true,
});
const client = await authClient(cluster);
const place = { url: requiredEnv('MONGODB_URL'), database: cluster.mongo.databaseName };

/** Registers an account with an inbox stream on the second front door; every call of the test goes to the first one. */
async function streaming() {
  const { data } = await client.register({ email: newEmail() });
  const { id, email } = data.user;
  const stream = await openStream(t, `${cluster.door(2).url}/v1/notifications/stream`, { 'x-actor-id': id });
  await stream.next('snapshot');
  const { accessToken, refreshToken } = data;
  return { id, email, stream, refreshToken, calls: client.as(accessToken) };
}

const examhall = (args: readonly string[], typed?: string) =>
  callExamhall(place, ['account', ...args, '--reason', 'a test of streams'], {
    ...(typed === undefined ? {} : { typed }),
    env: { REDIS_URL: cluster.env.REDIS_URL, AUTH_BCRYPT_COST: '4' },
  });

t.before(async () => {
  // The message is best effort, so the tests begin once both front doors have their links to Redis.
  const { email, stream } = await streaming();
  await until('a logout at one front door ends a stream at the other', async () => {
    const { data } = await client.login(email);
    await client.logout(data.refreshToken);
    return stream.ended();
  });
});

type Account = Awaited<ReturnType<typeof streaming>>;
const ENDS: Record<string, (account: Account) => Promise<unknown>> = {
  logout: ({ refreshToken }) => client.logout(refreshToken),
  'a password change with another session': async ({ calls, email }) => {
    await client.login(email);
    return calls.changePassword(PASSWORD, 'ngựa đúng pin ghim 7');
  },
  'the end of the other sessions': async ({ calls, email }) => {
    await client.login(email);
    return calls.endOthers();
  },
  'a suspension': ({ email }) => examhall(['status', email, 'SUSPENDED']),
  'an operator who ends the sessions': ({ email }) => examhall(['end-sessions', email]),
  'an operator who sets the password': ({ email }) => examhall(['set-password', email], 'ngựa đúng pin ghim 8\n'),
};

for (const [name, end] of Object.entries(ENDS)) {
  t.test(`${name} ends the live streams of the account in every process, and no other`, async (t) => {
    const [account, other] = [await streaming(), await streaming()];
    const done = await end(account);
    t.notMatch(done, { code: 1 });
    await until('the stream has ended', () => account.stream.ended());
    t.match(account.stream.text(), /\n\n$/, 'after a whole event');
    t.equal(other.stream.ended(), false);
    other.stream.close();
  });
}

t.test('without Redis the tool notes that streams end later, and changes the account all the same', async (t) => {
  const { email, stream, id } = await streaming();
  const told = await runExamhall(place, ['account', 'end-sessions', email, '--reason', 'a test of streams'], {
    env: { REDIS_URL: 'redis://127.0.0.1:1' },
  });
  t.match(told, { code: 0, err: /^note: Redis does not answer/m });
  const live = await cluster.mongo.collection('auth_sessions').countDocuments({ accountId: id, endedAt: null });
  t.equal(live, 0);
  t.equal(stream.ended(), false);
  stream.close();
});

const NEW_PASSWORD = 'ngựa đúng pin ghim 7';

/** Returns the owner's inbox once it has `count` notifications, the newest first. */
const inboxOf = (id: string, count: number) =>
  until(`${count} notifications`, async () => {
    const { data } = await client.call('GET', '/v1/notifications', { headers: { 'x-actor-id': id } });
    return data.items.length >= count && data.items;
  });
const idsOf = async (accountId: string) => {
  const events = await cluster.mongo.collection('auth_security_events').find({ accountId }).sort({ at: -1 }).toArray();
  return events.map(({ _id }) => `auth-service:${_id}`);
};

t.test(
  'the owner finds a changed password and a reused token in the inbox, once each, under the id of the event',
  async (t) => {
    const { data } = await client.register({ email: newEmail() });
    const id: string = data.user.id;
    t.equal((await client.as(data.accessToken).changePassword(PASSWORD, NEW_PASSWORD)).status, 200);
    const [changed] = await inboxOf(id, 1);
    t.match(changed, {
      type: 'ACCOUNT_SECURITY',
      preferenceType: 'ACCOUNT_SECURITY',
      title: 'Mật khẩu đã được thay đổi',
      entity: 'Account',
      entityId: id,
    });

    await cluster.kill('accountnotices', 'SIGKILL');
    t.equal((await client.refresh(data.refreshToken)).status, 200);
    const used = { _id: claimsIn(data.refreshToken).jti as never };
    const consumedAt = new Date(Date.now() - MINUTE);
    await cluster.mongo.collection('auth_tokens').updateOne(used, { $set: { consumedAt } });
    for (let n = 0; n < 3; n++) t.equal((await client.refresh(data.refreshToken)).status, 401);
    await cluster.start('accountnotices');
    const [reused] = await inboxOf(id, 2);
    t.match(reused, { title: 'Một phiên đăng nhập đã bị kết thúc' });
    const found = await inboxOf(id, 2);
    t.strictSame(
      found.map(({ sourceEventRef }: { sourceEventRef: string }) => sourceEventRef),
      await idsOf(id),
    );
  },
);

t.test('a password that an operator sets is in the inbox too, without the password', async (t) => {
  const { data } = await client.register({ email: newEmail() });
  const { id, email } = data.user;
  const act = { operator: 'binh', reason: 'forgotten', now: Date.now() };
  const mongo = { db: cluster.mongo, client: cluster.mongo.client, close: async () => undefined };
  await setPassword(mongo, { _id: id, email }, { scheme: 'bcrypt-sha256', hash: 'hash-canary' }, act);
  const items = await inboxOf(id, 1);
  t.match(items, [{ title: 'Mật khẩu đã được đặt lại', content: /^Quản trị viên đã đặt lại mật khẩu/ }]);
  t.notMatch(JSON.stringify(items), /hash-canary|forgotten|binh/);
});
