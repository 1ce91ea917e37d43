import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { openGateway, sitExam } from '#testing/clients/examples.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { until } from '#testing/until.ts';
import { createClient, type InboxEvent } from '../../../clients/typescript/src/index.ts';

const GATEWAY_TOKEN = 'gateway-token-of-the-test-cluster';

t.test('a student sits an exam by the client, and sees the notice by the example of a gateway', async (t) => {
  const cluster = await startCluster(t, {
    inside: true,
    workers: ['grading', 'gradenotices'],
    ownNotifications: true,
    env: { GATEWAY_TOKEN },
  });
  const { url: baseUrl } = cluster.door();
  const { internal } = cluster.tokens;
  const publicUrl = 'http://127.0.0.1';
  const server = openGateway({ examhallUrl: baseUrl, gatewayToken: GATEWAY_TOKEN, publicUrl });
  t.teardown(() => server.close().closeAllConnections());
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const gateway = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  const client = createClient({ baseUrl, gatewayToken: GATEWAY_TOKEN });
  const account = { email: 'an@truong.example', password: 'sông hương núi ngự', fullName: 'Nguyễn Văn An' };
  const { user } = await client.register({ body: account });
  const student = client.with({
    service: { name: 'api-gateway', token: internal },
    as: { id: user.id, role: user.role },
  });

  const stream = student.streams.inbox();
  const events: InboxEvent[] = [];
  const first = await stream.next();
  if (first.value) events.push(first.value);
  t.equal(await sitExam(student, 'exam-1'), 10);

  const inbox = await until('the notice is there', async () => {
    const page = await student.listNotifications({ query: { limit: 5 } });
    return page.items.length > 0 && page;
  });
  t.match(inbox, { total: 1, items: [{ type: 'GRADE_RELEASED', userId: user.id }] });
  for await (const event of stream) {
    events.push(event);
    if (event.event === 'notification') break;
  }
  t.match(events.at(0), { event: 'snapshot', data: { unreadCount: 0 } });
  t.match(events.at(-1), { event: 'notification', data: { notification: { id: inbox.items[0]?.id } } });

  const [attempt] = await student.listOwnAttempts();
  await t.rejects(student.readAttempt({ attemptId: 'unknown' }), { code: 'ATTEMPT_NOT_FOUND', status: 404 });
  await t.rejects(createClient({ baseUrl }).listNotifications({ as: { id: user.id, role: 'STUDENT' } }), {
    code: 'UNAUTHENTICATED',
  });
  t.equal(attempt?.status, 'GRADED');

  await t.test('the gateway forwards the identity of the token, and nothing that a caller forges', async (t) => {
    const call = (path: string, headers: Record<string, string> = {}) => fetch(gateway + path, { headers });
    const login = await fetch(`${gateway}/v1/auth/login`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ email: account.email, password: account.password }),
    });
    t.notMatch(await login.text(), /Token/);
    const [cookie = ''] = login.headers.getSetCookie().map((text) => text.split(';')[0] ?? '');
    const forged = { cookie, 'x-actor-id': 'other', 'x-actor-role': 'ADMIN' };
    const page = (await (await call('/v1/notifications', forged)).json()) as { data: { items: { userId: string }[] } };
    t.strictSame(
      page.data.items.map(({ userId }) => userId),
      [user.id],
    );
    t.equal((await call('/v1/auth/me', { cookie })).status, 200);
    t.equal((await call('/v1/notifications')).status, 401);
    t.equal((await call('/v1/notifications', { authorization: 'Bearer a.b.c' })).status, 401);
    for (const path of ['/v1/ops/status', '/v1/events/notification', '/healthz']) {
      t.equal((await call(path, { cookie })).status, 404, path);
    }
    t.match(await (await call('/inbox')).text(), /new EventSource\('\/v1\/notifications\/stream'\)/);

    const live = await call('/v1/notifications/stream', { cookie, accept: 'text/event-stream' });
    const { value } = (await live.body?.getReader().read()) ?? {};
    t.match(new TextDecoder().decode(value), /retry: 3000/);

    // The session ends elsewhere: the gateway refreshes once, and then ends it too, with its stream.
    const other = await client.login({ body: { email: account.email, password: account.password } });
    await client.endOtherSessions({ token: other.accessToken });
    t.equal((await call('/v1/auth/me', { cookie })).status, 401);
    t.equal((await call('/v1/notifications', { cookie })).status, 401);
  });
});
