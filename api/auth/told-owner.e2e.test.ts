import t from 'tap';
import { setPassword } from '#infra/mongo/auth/operator.ts';
import { MINUTE } from '#shared/kernel/time.ts';
import { authClient, claimsIn, newEmail, PASSWORD } from '#testing/clients/auth-client.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { until } from '#testing/until.ts';

const cluster = await startCluster(t, {
  inside: true,
  apart: ['accountnotices'],
  workers: ['accountnotices'],
  ownNotifications: true,
});
const client = await authClient(cluster);
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
