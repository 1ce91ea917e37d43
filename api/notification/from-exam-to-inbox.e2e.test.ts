import { Webhook } from 'standardwebhooks';
import t from 'tap';
import { attemptClient } from '#testing/clients/attempt-client.ts';
import { openNeighbours, WEBHOOK_SECRET } from '#testing/neighbours/neighbours.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { until } from '#testing/until.ts';

/** Receiver of the webhook channel, beside the profile service that the cluster starts. */
const receiver = await openNeighbours(t);
const cluster = await startCluster(t, {
  inside: true,
  workers: ['grading', 'gradenotices', 'delivery'],
  ownNotifications: true,
  env: receiver.webhookEnv,
});
const client = await attemptClient(cluster);
cluster.neighbours.parents = ['parent-1', 'parent-2'];

const inbox = async (id: string, role: string, path: string) =>
  (await client.call('GET', path, { headers: { 'x-actor-id': id, 'x-actor-role': role } })).data;

t.test(
  'a released grade reaches the inboxes of student and parents once, and the channel once for each of them',
  async (t) => {
    const { student, id } = await client.sitting({ exam: { title: 'Toán 12' } });
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
    const attempts = await until('each delivery attempt is recorded', async () => {
      const path = `/v1/delivery-attempts?notificationId=${own.items[0].id}&status=SENT`;
      const list = await inbox(student.id, 'STUDENT', path);
      return list.items.length > 0 && list;
    });
    t.match(attempts.items, [{ channel: 'webhook', status: 'SENT', attempt: 1, userId: student.id }]);
  },
);

t.test('a type that is disabled after its row was stored is not delivered', async (t) => {
  await cluster.kill('delivery', 'SIGTERM');
  const { student, id } = await client.sitting();
  await student.submit(id);
  await until('the row is there', async () => (await inbox(student.id, 'STUDENT', '/v1/notifications')).total > 0);
  await client.call('PATCH', '/v1/notifications/preferences', {
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
