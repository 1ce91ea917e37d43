import { Webhook } from 'standardwebhooks';
import t from 'tap';
import { attemptClient } from '#testing/clients/attempt-client.ts';
import { notificationClient } from '#testing/clients/notification-client.ts';
import { mailHeaders, openMailReceiver } from '#testing/neighbours/mail-receiver.ts';
import { openNeighbours, WEBHOOK_SECRET } from '#testing/neighbours/neighbours.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { testBrowser } from '#testing/stored/stored-notifications.ts';
import { until } from '#testing/until.ts';

/** Receiver of the webhook channel, beside the profile service that the cluster starts. */
const receiver = await openNeighbours(t);
const cluster = await startCluster(t, {
  inside: true,
  workers: ['grading', 'gradenotices', 'delivery'],
  ownNotifications: true,
  env: receiver.webhookEnv,
});
const attempts = await attemptClient(cluster);
cluster.neighbours.parents = ['parent-1', 'parent-2'];

const inbox = async (id: string, role: string, path: string) =>
  (await attempts.call('GET', path, { headers: { 'x-actor-id': id, 'x-actor-role': role } })).data;

const mail = await openMailReceiver(t);
const mailing = await startCluster(t, {
  inside: true,
  workers: ['delivery'],
  env: {
    ...mail.env,
    NOTIFICATION_CHANNELS: 'email',
    NOTIFICATION_UNSUBSCRIBE_URL: 'https://api.school.example/v1/notifications/unsubscribe',
    NOTIFICATION_UNSUBSCRIBE_SECRET: 'a secret of the test that is long enough',
    NOTIFICATION_WEBPUSH_PRIVATE_KEY: 'yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw',
    NOTIFICATION_WEBPUSH_SUBJECT: 'mailto:it@school.example',
  },
});
const notifications = await notificationClient(mailing);

t.test(
  'a released grade reaches the inboxes of student and parents once, and the channel once for each of them',
  async (t) => {
    const { student, id } = await attempts.sitting({ exam: { title: 'Toán 12' } });
    await student.submit(id);
    const own = await until('the student has the notification', async () => {
      const list = await inbox(student.id, 'STUDENT', '/v1/notifications');
      // Page and counts are separate reads, so one may be slightly older than the other.
      return list.items.length * list.unreadCount > 0 && list;
    });
    t.match(own, {
      total: 1,
      unreadCount: 1,
      items: [
        {
          type: 'GRADE_RELEASED',
          title: 'Kết quả bài thi đã được công bố',
          entity: 'ExamAttempt',
          entityId: id,
          content: 'Bài thi "Toán 12" đã có kết quả.',
          sourceEventRef: `attempt-service:${id}:notification:grade_released`,
        },
      ],
    });
    for (const parent of ['parent-1', 'parent-2']) {
      const alerts = await until(`${parent} has the notification`, async () => {
        const list = await inbox(parent, 'PARENT', '/v1/parent/alerts');
        return list.items.length > 0 && list;
      });
      t.match(alerts, {
        total: 1,
        items: [
          { type: 'GRADE_RELEASED_PARENT', content: 'Bài thi của con bạn "Toán 12" đã có kết quả.', entityId: id },
        ],
      });
    }

    const calls = await until('all three are delivered', () => receiver.calls.length >= 3 && receiver.calls);
    const told = calls.map(({ body }) => (body as { notification: { userId: string } } | null)?.notification.userId);
    t.strictSame(told.sort(), ['parent-1', 'parent-2', student.id]);
    for (const { headers, text, body } of calls) {
      const signed = new Webhook(WEBHOOK_SECRET).verify(text, headers as Record<string, string>);
      t.strictSame(signed, body, 'a public library accepts the signature');
      t.equal(headers['webhook-id'], body?.deliveryJobId);
    }
    const recorded = await until('each delivery attempt is recorded', async () => {
      const path = `/v1/delivery-attempts?notificationId=${own.items[0].id}&status=SENT`;
      const list = await inbox(student.id, 'STUDENT', path);
      return list.items.length > 0 && list;
    });
    t.match(recorded.items, [{ channel: 'webhook', status: 'SENT', attempt: 1, userId: student.id }]);
  },
);

t.test('a type that is disabled after its row was stored is not delivered', async (t) => {
  await cluster.kill('delivery', 'SIGTERM');
  const { student, id } = await attempts.sitting();
  await student.submit(id);
  await until('the row is there', async () => (await inbox(student.id, 'STUDENT', '/v1/notifications')).total > 0);
  await attempts.call('PATCH', '/v1/notifications/preferences', {
    headers: { 'x-actor-id': student.id, 'x-actor-role': 'STUDENT' },
    body: { enabledTypes: { GRADE_RELEASED: false } },
  });
  await cluster.start('delivery');
  const jobs = cluster.mongo.collection<{ _id: string; status: string; body: { userId: string } }>(
    'notification_deliveries',
  );
  const job = await until('the job is settled', async () => {
    const found = await jobs.findOne({ 'body.userId': student.id });
    return found !== null && found.status !== 'PENDING' && found;
  });
  t.match(job, { status: 'SUPPRESSED', result: { reason: 'TYPE_DISABLED' } });
  t.notOk(receiver.calls.some(({ body }) => JSON.stringify(body).includes(student.id)));
  t.match(await inbox(student.id, 'STUDENT', '/v1/notifications'), { total: 1 }, 'the notification stays in the inbox');
});
const producer = notifications.service('exam-service');
const jobs = mailing.mongo.collection<{ _id: string; status: string }>('notification_deliveries');

t.test('a notification is an e-mail, until its user turns the e-mails off by the link in one', async (t) => {
  const user = notifications.as('STUDENT');
  await producer.create(user.id);
  const [first] = await until('the e-mail arrives', () => mail.mails.length > 0 && mail.mails);
  const [, path = ''] =
    /<https:\/\/api\.school\.example(\S+)>/.exec(mailHeaders(first?.raw ?? '').get('list-unsubscribe') ?? '') ?? [];
  t.match(path, /^\/v1\/notifications\/unsubscribe\?token=/);

  t.match(await notifications.call('GET', path), { status: 200, data: { channel: 'email', isOff: false } });
  const page = await mailing.request('GET', path, { headers: { accept: 'text/html' } });
  t.match(page, { status: 200, headers: { 'content-type': /^text\/html/ }, text: /<form method="post">/ });
  t.notOk('channels' in (await user.preferences()).data, 'a GET changes nothing');
  for (const token of ['x', `${path.split('token=')[1]}A`])
    t.match(await notifications.call('POST', `/v1/notifications/unsubscribe?token=${token}`), {
      status: 400,
      json: { details: [{ path: '/token' }] },
    });

  for (const type of ['application/x-www-form-urlencoded', 'multipart/form-data; boundary=b']) {
    const off = await notifications.call('POST', path, {
      headers: { 'content-type': type },
      body: 'List-Unsubscribe=One-Click',
    });
    t.match(off, { status: 200, data: { channel: 'email', isOff: true } }, type);
  }
  t.match((await user.preferences()).data, { enabledTypes: {}, channels: { email: false } });
  const { notification } = (await producer.create(user.id)).data;
  t.match(await jobs.findOne({ _id: `${notification.id}:email` }), {
    status: 'SUPPRESSED',
    result: { reason: 'CHANNEL_DISABLED' },
  });
  t.match((await user.list()).data, { total: 2 }, 'the inbox has both');

  t.match(await user.prefer({ channels: { email: true } }), { status: 200, data: { channels: { email: true } } });
  t.match(await user.prefer({ channels: { webhook: false } }), { status: 400 });
  await producer.create(user.id);
  await until('the next e-mail arrives', () => mail.mails.length === 2);
});

t.test('a user registers, lists and removes browsers of its own', async (t) => {
  const user = notifications.as('STUDENT');
  const { headers } = user;
  const path = '/v1/push-subscriptions';
  t.match((await notifications.call('GET', '/v1/push-key', { headers })).data, { publicKey: /^B[\w-]{86}$/ });
  const { request, subscription } = testBrowser();
  const added = await notifications.call('POST', path, { headers, body: { ...request, expirationTime: null } });
  t.match(added, {
    status: 201,
    data: { subscription: { id: subscription.id, origin: 'https://fcm.googleapis.com' } },
  });
  t.notMatch(added.text, /auth|p256dh|\/send\//);
  for (const host of ['169.254.169.254', 'fcm.googleapis.com.evil.example', 'kubernetes.default.svc', 'printer.corp']) {
    const foreign = { ...request, endpoint: `https://${host}/send/1` };
    const refused = { status: 400, json: { code: 'VALIDATION_FAILED', details: [{ path: '/endpoint' }] } };
    t.match(await notifications.call('POST', path, { headers, body: foreign }), refused, host);
  }
  t.match(await notifications.call('POST', path, { headers, body: { endpoint: 'x' } }), { status: 400 });
  t.match(await notifications.call('POST', path, { body: request }), { status: 401 });
  const stranger = notifications.as('STUDENT').headers;
  t.strictSame((await notifications.call('GET', path, { headers: stranger })).data, { items: [] });
  const one = `${path}/${subscription.id}`;
  t.match((await notifications.call('DELETE', one, { headers: stranger })).data, { deleted: 0 });
  t.match((await notifications.call('GET', path, { headers })).data, { items: [{ id: subscription.id }] });
  t.match(await notifications.call('POST', path, { headers: stranger, body: request }), { status: 201 });
  t.strictSame(
    (await notifications.call('GET', path, { headers })).data,
    { items: [] },
    'the last user has the browser',
  );
  t.match(await notifications.call('POST', path, { headers, body: request }), { status: 201 });
  t.match((await notifications.call('DELETE', one, { headers })).data, { deleted: 1 });
  t.match((await notifications.call('DELETE', one, { headers })).data, { deleted: 0 });
});
