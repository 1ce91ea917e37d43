import { randomUUID } from 'node:crypto';
import t from 'tap';
import { retryOn503 } from '#testing/clients/call.ts';
import { checkedApi } from '#testing/doors/checked-api.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { until } from '#testing/until.ts';

const cluster = await startCluster(t, { inside: true, doors: 2, workers: [] });
const audited = await startCluster(t, {
  inside: true,
  workers: ['upkeep'],
  env: { AUDIT_SERVICE_URL: cluster.neighbours.url },
});
const call = await checkedApi(cluster.request);

const sender = (name: string) => ({ 'x-internal-service': name, 'x-internal-token': cluster.tokens.internal });
const actor = (id: string, role = 'STUDENT') => ({ 'x-actor-id': id, 'x-actor-role': role });
const note = (userId: string, more: object = {}) => ({
  userId,
  type: 'EXAM_ASSIGNED',
  title: 'Bài thi mới',
  content: 'Bạn có một bài thi.',
  ...more,
});
const event = (more: object = {}) => ({
  sourceService: 'exam-service',
  sourceEventId: `e-${randomUUID()}`,
  type: 'exam.assigned.notification.v1',
  ...more,
});
const intake = (body: object, name = 'exam-service', door = 1) =>
  call('POST', '/v1/events/notification', { headers: sender(name), body, door });
const batch = (body: object, headers: Record<string, string> = sender('exam-service')) =>
  call('POST', '/v1/notifications/batch', { headers, body });
const inbox = async (userId: string, query = '') =>
  (await call('GET', `/v1/notifications${query}`, { headers: actor(userId) })).data;

t.test('an event creates its rows once; a replay returns the original and creates none', async (t) => {
  const [an, binh] = [randomUUID(), randomUUID()];
  const about = { entity: 'Exam', entityId: 'exam-1', organizationId: 'org-1', actorId: 'teacher-1' };
  const body = event({
    ...about,
    targetUserIds: [an, binh],
    payload: { $set: { 'a.b': 1 } },
    unknown: 'dropped',
    notifications: [note(an, { data: { $inc: { 'x.y': 'v' } } }), note(binh, { organizationId: 'org-2', extra: true })],
  });
  const first = await intake(body);
  t.match(first, { status: 201, data: { created: 2, suppressed: [], replayed: false } });
  t.match(first.data.event, {
    ...about,
    payload: { $set: { 'a.b': 1 } },
    preferenceType: null,
    targetUserIds: [an, binh],
  });
  t.notOk('unknown' in first.data.event);
  t.strictSame(first.data.ignored, ['unknown'], 'the fields of the body itself, not those of a notification');
  const again = await intake({ ...body, unknown: undefined, notifications: [note(randomUUID())] }, 'exam-service', 2);
  t.strictSame(again.data, { event: first.data.event, created: 0, replayed: true });
  t.equal(again.status, 200);
  const list = await inbox(an);
  t.match(list, { total: 1, unreadCount: 1 });
  t.match(list.items[0], {
    userId: an,
    organizationId: 'org-1',
    data: { $inc: { 'x.y': 'v' } },
    isRead: false,
    readAt: null,
    sourceEventRef: `exam-service:${body.sourceEventId}`,
  });
  t.match((await inbox(binh)).items[0], { organizationId: 'org-2' });
});

t.test('an event needs no type', async (t) => {
  const user = randomUUID();
  for (const type of [undefined, null]) {
    const body = event({ type, notifications: [note(user)] });
    t.match(await intake(body), { status: 201, data: { created: 1, event: { type: null } } });
    t.match(await intake(body), { status: 200, data: { created: 0, replayed: true, event: { type: null } } });
  }
  t.match(await inbox(user), { total: 2 });
  t.match(await intake(event({ type: '' })), { status: 400, json: { details: [{ path: '/type' }] } });
});

t.test('intake, batch and weak topics share one replay key', async (t) => {
  const user = randomUUID();
  const pair = { sourceService: 'exam-service', sourceEventId: randomUUID() };
  const made = await batch({ notifications: [note(user), note(user)], event: pair });
  t.match(made, { status: 201, data: { created: 2, event: { ...pair, type: null } } });
  t.equal(made.data.notifications.length, 2);
  const replayed = await batch({ notifications: [note(randomUUID())], event: pair });
  t.equal(replayed.status, 200);
  t.strictSame(replayed.data, { ...made.data, created: 0 }, 'with the original ids');
  t.match(await intake(event({ ...pair, notifications: [note(user)] })), { status: 200, data: { replayed: true } });

  const alert = { sourceService: 'analytics-service', sourceEventId: randomUUID(), studentId: 's', topic: 't' };
  const weak = (path: string, headers: Record<string, string>) =>
    call('POST', path, { headers, body: { ...alert, parentIds: [user] } });
  t.match(await weak('/v1/events/weak-topic-alert', sender('bff-service')), { status: 201, data: { created: 1 } });
  t.match(await weak('/v1/events/weak-topic-alert', sender('bff-service')), {
    status: 200,
    data: { created: 0, replayed: true },
  });
  const asAdmin = { notifications: [note(user)], event: { ...alert, studentId: undefined, topic: undefined } };
  t.match(await batch(asAdmin, actor('admin', 'ADMIN')), { status: 200 }, 'an ADMIN may name any source');
  t.match(await inbox(user), { total: 3 });
});

t.test('fifty concurrent posts of an event at two doors create one set of rows and one audit post', async (t) => {
  const body = event({ notifications: Array.from({ length: 20 }, (_, n) => note(`crowd-${n}`)) });
  const replies = await Promise.all(
    Array.from({ length: 50 }, (_, n) => retryOn503(() => intake(body, 'exam-service', 1 + (n % 2)))),
  );
  t.equal(replies.filter(({ status }) => status === 201).length, 1);
  t.equal(replies.filter(({ status }) => status === 200).length, 49);
  t.equal(new Set(replies.map(({ data }) => data.event.id)).size, 1);
  for (const n of [0, 19]) t.match(await inbox(`crowd-${n}`), { total: 1 });
});

t.test('one event accepts ten thousand recipients, and no more', { timeout: 500_000 }, async (t) => {
  const many = (count: number) => Array.from({ length: count }, (_, n) => note(`many-${n}`, { content: 'x' }));
  const body = event({ notifications: many(10_000) });
  const made = await retryOn503(() => intake(body));
  t.match(made, { status: 201, data: { created: 10_000, suppressed: [] } });
  for (const n of [0, 999, 1_000, 9_999])
    t.match(await inbox(`many-${n}`), { total: 1, unreadCount: 1 }, `at once, ${n}`);
  const listed = await call('GET', '/v1/notifications?userId=many-5000', { headers: actor('admin', 'ADMIN') });
  const [row] = listed.data.items;
  t.match(await call('POST', `/v1/notifications/${row.id}/read`, { headers: actor('many-5000') }), { status: 200 });
  t.match(await call('POST', '/v1/notifications/read-all', { headers: actor('many-4999') }), { data: { updated: 1 } });
  t.match(await call('POST', `/v1/notifications/${row.id}/delete`, { headers: actor('many-5000') }), { status: 200 });
  t.match(await inbox('many-5000'), { total: 0, unreadCount: 0 });
  t.match(await intake(body), { status: 200, data: { replayed: true, created: 0 } });
  t.match(await intake(event({ notifications: many(10_001) })), { status: 400, json: { code: 'VALIDATION_FAILED' } });
  t.match(
    await intake(event({ notifications: [] })),
    { status: 201, data: { created: 0 } },
    'an event may make nothing',
  );
});

t.test('preferences and mutes suppress rows before they are stored, each with its reason', async (t) => {
  const [off, muted, both, fine] = [randomUUID(), randomUUID(), randomUUID(), randomUUID()];
  const set = (id: string, body: object) =>
    call('PATCH', '/v1/notifications/preferences', { headers: actor(id), body });
  const until2099 = '2099-01-01T00:00:00Z';
  await set(off, { enabledTypes: { EXAM_ASSIGNED: false } });
  await set(muted, { mutedUntil: until2099 });
  await set(both, { enabledTypes: { EXAM_ASSIGNED: false }, mutedUntil: until2099 });
  await set(fine, { enabledTypes: { EXAM_ASSIGNED: true, OTHER: false }, mutedUntil: '2020-01-01T00:00:00Z' });
  const suppressed = [
    { userId: off, reason: 'TYPE_DISABLED' },
    { userId: muted, reason: 'MUTED' },
    { userId: both, reason: 'TYPE_DISABLED' },
  ];
  const notifications = [off, muted, both, fine].map((id) => note(id));
  t.match(await intake(event({ notifications })), { status: 201, data: { created: 1, suppressed } });
  t.match(await batch({ notifications }), { status: 201, data: { created: 1, suppressed, event: null } });
  const one = await call('POST', '/v1/notifications', { headers: sender('exam-service'), body: note(off) });
  t.strictSame([one.status, one.data], [200, { notification: null, created: 0, suppressed: [suppressed[0]] }]);
  t.match(await inbox(off), { total: 0 });
  const other = event({ preferenceType: 'OTHER', notifications: [note(off), note(fine)] });
  t.match(await intake(other), { data: { created: 1, suppressed: [{ userId: fine, reason: 'TYPE_DISABLED' }] } });
});

t.test('an invalid request is refused and stores nothing', async (t) => {
  const before = await cluster.mongo.collection('notification_events').countDocuments({});
  const code = async (reply: ReturnType<typeof intake>) => [(await reply).status, (await reply).json.code];
  t.strictSame(await code(intake(event({ sourceService: 'admin-service' }))), [403, 'NOTIFICATION_SOURCE_MISMATCH']);
  t.strictSame(await code(batch({ notifications: [note('u')], event: event({ sourceService: 'admin-service' }) })), [
    403,
    'NOTIFICATION_SOURCE_MISMATCH',
  ]);
  for (const half of [{ sourceService: undefined }, { sourceEventId: undefined }, { sourceEventId: null }]) {
    t.strictSame(await code(intake(event({ ...half, notifications: [note('u')] }))), [400, 'VALIDATION_FAILED']);
  }
  for (const bad of [
    note('u', { title: 'x'.repeat(501) }),
    note('u', { content: 'x'.repeat(20_001) }),
    note('u', { data: { text: 'x'.repeat(8_192) } }),
    note(''),
    { userId: 'u' },
  ]) {
    t.strictSame(await code(intake(event({ notifications: [note('u'), bad] }))), [400, 'VALIDATION_FAILED']);
    t.strictSame(await code(batch({ notifications: [note('u'), bad] })), [400, 'VALIDATION_FAILED']);
  }
  t.strictSame(await code(batch({ notifications: [] })), [400, 'VALIDATION_FAILED']);
  t.strictSame(await code(batch({ notifications: [note('u', { extra: 1 })] })), [400, 'VALIDATION_FAILED']);
  t.equal(await cluster.mongo.collection('notification_events').countDocuments({}), before);
  t.match(await inbox('u'), { total: 0 });
});

t.test('each stored event is sent to the audit service, again after a failure, which affects no reply', async (t) => {
  const { neighbours } = cluster;
  const post = (body: object) =>
    audited.request('POST', '/v1/events/notification', { headers: sender('exam-service'), body });
  const told = (id: string) => neighbours.calls.filter(({ body }) => body?.sourceEventId === id);
  const body = event({
    entity: 'Exam',
    entityId: 'exam-1',
    notifications: [note('audited', { content: 'canary-content' })],
  });
  const replies = await Promise.all(Array.from({ length: 20 }, () => retryOn503(() => post(body))));
  const { id, createdAt } = replies[0]?.data.event ?? {};
  await until('the audit service has the event', () => told(id).length > 0);
  t.match(told(id)[0], {
    method: 'POST',
    path: '/v1/events',
    headers: { 'x-internal-service': 'notification-service' },
    body: {
      sourceService: 'notification-service',
      sourceEventId: id,
      category: 'DOMAIN',
      severity: 'INFO',
      metadataSchemaVersion: 1,
      retentionPolicy: 'notification-events',
      occurredAt: createdAt,
    },
  });
  t.notMatch(JSON.stringify(told(id)), /canary-content/);

  neighbours.answer = () => ({ status: 500 });
  const unheard = await post(event({ type: 'without.pair.v1', sourceService: undefined, sourceEventId: undefined }));
  t.equal(unheard.status, 201, 'a failing audit service does not change the reply');
  await until('the audit service was called', () => told(unheard.data.event.id).length > 0);
  t.equal(told(id).length, 1, 'the stored event is sent once');
  neighbours.answer = null;
  const again = told(unheard.data.event.id).length + 1;
  await until('the event is sent again', () => told(unheard.data.event.id).length >= again);
});

t.test('a reply lists every fault of a body, those of schema and rules together', async (t) => {
  const faults = async (path: string, headers: Record<string, string>, body: object) => {
    const reply = await call('POST', path, { headers, body });
    t.match(reply, { status: 400, json: { code: 'VALIDATION_FAILED' } });
    return reply.json.details.map(({ path }: { path: string }) => path).sort();
  };
  const half = { sourceService: 'exam-service', notifications: [{ ...note('an'), title: '' }] };
  t.strictSame(await faults('/v1/events/notification', sender('exam-service'), half), [
    '/notifications/0/title',
    '/sourceEventId',
  ]);
  const batched = { notifications: [{ ...note('an'), title: '' }], event: { sourceEventId: 'e', bogus: 1 } };
  t.strictSame(await faults('/v1/notifications/batch', sender('exam-service'), batched), [
    '/event/bogus',
    '/event/sourceService',
    '/notifications/0/title',
  ]);
  for (const [path, headers] of [
    ['/v1/events/weak-topic-alert', sender('bff-service')],
    ['/v1/alerts/weak-topic', actor('teacher', 'TEACHER')],
  ] as const) {
    t.strictSame(await faults(path, headers, { parentIds: [], topic: '' }), [
      '/parentIds',
      '/sourceEventId',
      '/sourceService',
      '/studentId',
      '/topic',
    ]);
  }
});

t.test('rows of one fan-out keep their order: a later one counts as newer', async (t) => {
  const user = randomUUID();
  const titles = Array.from({ length: 12 }, (_, n) => `no. ${n}`);
  const made = await batch({ notifications: titles.map((title) => note(user, { title })) });
  const { items } = await inbox(user);
  t.strictSame(
    items.map(({ title }: { title: string }) => title),
    titles.toReversed(),
  );
  t.strictSame(
    items.map(({ id }: { id: string }) => id),
    made.data.notifications.toReversed(),
  );
});
