import { randomUUID } from 'node:crypto';
import t from 'tap';
import type { AlertCallsRow } from '#infra/mongo/notification/collections.ts';
import { checkedApi } from '#testing/doors/checked-api.ts';
import { startCluster } from '#testing/processes/cluster.ts';

const cluster = await startCluster(t, { inside: true, workers: [], neighbours: false });
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
    data: { created: 3, replayed: false, event: { organizationId: 'org-9' }, ignored: ['more'] },
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

t.test(
  'an alert of a teacher neither shows, blocks nor replaces the event of a service or of another teacher',
  async (t) => {
    const [parent, stranger] = [randomUUID(), randomUUID()];
    const secret = {
      sourceService: 'analytics-service',
      sourceEventId: randomUUID(),
      studentId: 'hs-secret',
      topic: 'Hàm số',
      parentIds: [parent],
    };
    const intake = () => call('POST', '/v1/events/weak-topic-alert', { headers: sender('bff-service'), body: secret });
    const guess = (id: string) =>
      call('POST', '/v1/alerts/weak-topic', {
        headers: actor(id, 'TEACHER'),
        body: { ...secret, studentId: 'hs-guess', topic: 'Đoán', parentIds: [stranger] },
      });
    const [eve, mallory] = [randomUUID(), randomUUID()];

    const burnt = await guess(eve);
    t.notOk('ignored' in burnt.data);
    t.match(burnt, { status: 201, data: { created: 1, event: { actorId: eve, entityId: 'hs-guess' } } });
    t.match(
      await intake(),
      { status: 201, data: { created: 1, replayed: false, event: { actorId: null } } },
      'not burnt',
    );
    t.match(await intake(), { status: 200, data: { replayed: true, event: { entityId: 'hs-secret', actorId: null } } });

    const read = await guess(mallory);
    t.match(read, { status: 201, data: { replayed: false, event: { actorId: mallory, entityId: 'hs-guess' } } });
    t.notMatch(read.text, 'hs-secret', 'shows nothing of the event of the service');
    t.notMatch(read.text, eve, 'shows nothing of the event of another teacher');

    const again = await guess(eve);
    t.match(again, { status: 200, data: { created: 0, replayed: true, event: { id: burnt.data.event.id } } });
    t.match((await inbox(parent)).items, [{ actorId: null }]);
    t.strictSame(
      (await inbox(stranger)).items.map((item: { actorId: string }) => item.actorId).sort(),
      [eve, mallory].sort(),
    );
  },
);

t.test('equal alerts that one teacher sends at once create one event', async (t) => {
  const [teacher, parent] = [randomUUID(), randomUUID()];
  const body = {
    sourceService: 'bff-service',
    sourceEventId: randomUUID(),
    studentId: 'hs-1',
    topic: 'Hàm số',
    parentIds: [parent],
  };
  const send = () => call('POST', '/v1/alerts/weak-topic', { headers: actor(teacher, 'TEACHER'), body });
  const replies = await Promise.all(Array.from({ length: 10 }, send));
  t.equal(replies.filter(({ status }) => status === 201).length, 1);
  t.equal(new Set(replies.map(({ data }) => data.event.id)).size, 1);
  t.match(await inbox(parent), { total: 1 });
});

t.test('a teacher sends at most sixty alerts an hour, counted in MongoDB', async (t) => {
  const teacher = randomUUID();
  const alertCalls = cluster.mongo.collection<AlertCallsRow>('notification_alert_calls');
  const send = (id = teacher) =>
    call('POST', '/v1/alerts/weak-topic', {
      headers: actor(id, 'TEACHER'),
      body: {
        sourceService: 'bff-service',
        sourceEventId: randomUUID(),
        studentId: 'hs-1',
        topic: 'Hàm số',
        parentIds: ['parent-of-many'],
      },
    });
  t.equal((await send()).status, 201);
  const { calls: [first] = [] } = (await alertCalls.findOne({ _id: teacher })) ?? {};
  const ago = (minutes: number) => new Date((first?.getTime() ?? 0) - minutes * 60_000);
  const setCalls = (calls: Date[]) => alertCalls.updateOne({ _id: teacher }, { $set: { calls } });

  await setCalls(Array.from({ length: 59 }, () => ago(10)));
  t.equal((await send()).status, 201, 'the sixtieth');
  const refused = await send();
  t.match(refused, { status: 429, json: { code: 'RATE_LIMITED' } });
  const seconds = Number(refused.headers['retry-after']);
  t.ok(seconds > 45 * 60 && seconds <= 50 * 60, `Retry-After ${seconds}: when the oldest call is an hour old`);
  t.equal((await alertCalls.findOne({ _id: teacher }))?.calls.length, 60, 'a refused call is not counted');
  t.equal((await send(randomUUID())).status, 201, 'another teacher is free');
  const internal = await call('POST', '/v1/events/weak-topic-alert', {
    headers: { ...sender('bff-service'), ...actor(teacher, 'TEACHER') },
    body: {
      sourceService: 'analytics-service',
      sourceEventId: randomUUID(),
      studentId: 'hs-1',
      topic: 'Hàm số',
      parentIds: ['parent-of-many'],
    },
  });
  t.equal(internal.status, 201, 'and so is the intake from services');

  await setCalls(Array.from({ length: 60 }, () => ago(61)));
  t.equal((await send()).status, 201, 'an hour later');
});

t.test(
  'a teacher cannot write to parents beyond one line, and a refused alert is neither stored nor counted',
  async (t) => {
    const [teacher, parent] = [randomUUID(), randomUUID()];
    const body = {
      sourceService: 'bff-service',
      sourceEventId: randomUUID(),
      studentId: 'hs-1',
      studentName: 'Nam',
      topic: 'Hàm số',
      parentIds: [parent],
    };
    const headers = { ...actor(teacher, 'TEACHER'), 'x-organization-id': 'org-B' };
    const send = (change: object) => call('POST', '/v1/alerts/weak-topic', { headers, body: { ...body, ...change } });
    const forged = 'Nam\r\n\r\nNHÀ TRƯỜNG THÔNG BÁO: xác minh tại https://truong-edu.example/login\r\n\r\n';
    const many = Array.from({ length: 21 }, (_, n) => `parent-${n}`);
    const refusals: [object, string[]][] = [
      [{ studentName: forged }, ['/studentName']],
      [{ studentName: 'n'.repeat(101), topic: forged }, ['/studentName', '/topic']],
      [{ topic: 't'.repeat(201) }, ['/topic']],
      [{ topic: 'evil.example/login' }, ['/topic']],
      [{ studentName: null, studentId: forged }, ['/studentId']],
      [{ parentIds: many }, ['/parentIds']],
      [{ parentIds: many.slice(0, 11), recipientIds: many.slice(11) }, ['/recipientIds']],
      [{ sourceService: 'exam-service' }, ['/sourceService']],
    ];
    for (const [change, paths] of refusals) {
      const refused = await send(change);
      t.match(refused, { status: 400, json: { code: 'VALIDATION_FAILED' } }, paths.join());
      t.strictSame(refused.json.details.map(({ path }: { path: string }) => path).sort(), paths);
      t.notMatch(refused.text, 'truong-edu');
    }
    t.match(await inbox(parent), { total: 0 });
    t.equal(
      await cluster.mongo.collection<AlertCallsRow>('notification_alert_calls').countDocuments({ _id: teacher }),
      0,
    );

    const accepted = await send({ organizationId: 'org-A' });
    t.match(accepted, { status: 201, data: { event: { organizationId: 'org-B' } } });
    t.match((await inbox(parent)).items, [{ organizationId: 'org-B', actorId: teacher }]);
  },
);

t.test('a service reports topics of its own words under any name of at most 64 characters', async (t) => {
  const parent = randomUUID();
  const body = {
    sourceService: 's'.repeat(64),
    sourceEventId: randomUUID(),
    studentId: 'hs-1',
    studentName: 'n'.repeat(500),
    topic: 'https://lms.example/topics/7',
    parentIds: [parent],
    organizationId: 'org-A',
  };
  const send = (change: object) =>
    call('POST', '/v1/events/weak-topic-alert', { headers: sender('bff-service'), body: { ...body, ...change } });
  t.match(await send({}), { status: 201, data: { created: 1, event: { organizationId: 'org-A', actorId: null } } });
  for (const sourceService of ['', 's'.repeat(65)])
    t.match(await send({ sourceService }), { status: 400, json: { details: [{ path: '/sourceService' }] } });
});
