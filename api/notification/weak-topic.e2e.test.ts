import { randomUUID } from 'node:crypto';
import t from 'tap';
import { checkedApi } from '#testing/doors/checked-api.ts';
import { startCluster } from '#testing/processes/cluster.ts';

const cluster = await startCluster(t, { workers: [], neighbours: false });
const call = await checkedApi(cluster.request);

const sender = (name: string) => ({ 'x-internal-service': name, 'x-internal-token': cluster.tokens.internal });
const actor = (id: string, role = 'STUDENT') => ({ 'x-actor-id': id, 'x-actor-role': role });
const inbox = async (userId: string) => (await call('GET', '/v1/notifications', { headers: actor(userId) })).data;

t.test('a weak topic notifies each parent once, in the words of the previous system', async (t) => {
  const parents = [randomUUID(), randomUUID(), randomUUID()];
  const alert = {
    sourceService: 'bff-service',
    sourceEventId: randomUUID(),
    studentId: 'hs-1',
    topic: 'Hàm số',
    parentIds: parents.slice(0, 2),
    recipientIds: parents.slice(1),
    organizationId: 'org-9',
    score: 3.5,
    more: 1,
  };
  const send = (body: object, headers: Record<string, string> = sender('bff-service')) =>
    call('POST', '/v1/events/weak-topic-alert', { headers, body });
  t.match(await send(alert), {
    status: 201,
    data: { created: 3, replayed: false, event: { organizationId: 'org-9' } },
  });
  const alerts = await call('GET', '/v1/parent/alerts', { headers: actor(parents[1] ?? '', 'PARENT') });
  t.match(alerts.data.items, [
    {
      type: 'WEAK_TOPIC_ALERT',
      title: 'Cảnh báo chủ đề yếu',
      organizationId: 'org-9',
      content: 'Học sinh hs-1 cần củng cố chủ đề "Hàm số".',
    },
  ]);
  const named = { ...alert, sourceEventId: randomUUID(), studentName: 'An', parentIds: null };
  await send(named);
  t.match((await inbox(parents[2] ?? '')).items[0].content, 'Học sinh An cần củng cố chủ đề "Hàm số".');
  const nobody = { ...alert, sourceEventId: randomUUID(), parentIds: [], recipientIds: undefined };
  t.match(await send(nobody), { status: 400, json: { code: 'VALIDATION_FAILED' } });
  for (const missing of ['sourceService', 'sourceEventId', 'studentId', 'topic']) {
    t.match(await send({ ...alert, [missing]: undefined }), { status: 400 }, missing);
  }
  t.match(await send(alert, sender('exam-service')), {
    status: 401,
    json: { code: 'NOTIFICATION_INTERNAL_UNAUTHORIZED' },
  });
  for (const role of ['STUDENT', 'PARENT']) {
    const reply = await call('POST', '/v1/alerts/weak-topic', { headers: actor('x', role), body: alert });
    t.match(reply, { status: 403, json: { code: 'FORBIDDEN' } });
  }
  await call('PATCH', '/v1/notifications/preferences', {
    headers: actor(parents[0] ?? '', 'PARENT'),
    body: { enabledTypes: { WEAK_TOPIC_ALERT: false } },
  });
  const suppressed = [{ userId: parents[0], reason: 'TYPE_DISABLED' }];
  t.match(await send({ ...alert, sourceEventId: randomUUID() }), { data: { created: 2, suppressed } });
});

t.test('an event of a weak topic accepts as many parents and as long ids as its schema allows', async (t) => {
  const ids = (from: string) => Array.from({ length: 1_000 }, (_, n) => `${from}${n}`.padEnd(128, 'x'));
  const alert = {
    sourceService: 'bff-service',
    sourceEventId: randomUUID(),
    studentId: 'hs-1',
    topic: 'Hàm số',
    parentIds: ids('parent-'),
    recipientIds: ids('recipient-'),
  };
  const send = (body: object) => call('POST', '/v1/events/weak-topic-alert', { headers: sender('bff-service'), body });
  t.match(await send(alert), { status: 201, data: { created: 2_000 } });
  t.match(await send({ ...alert, more: 'x'.repeat(8_388_608) }), {
    status: 413,
    json: { code: 'PAYLOAD_TOO_LARGE' },
  });
});
