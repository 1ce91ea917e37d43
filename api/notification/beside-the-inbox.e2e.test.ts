import t from 'tap';
import { newUserId, notificationBody, notificationClient } from '#testing/clients/notification-client.ts';
import { startCluster } from '#testing/processes/cluster.ts';

const cluster = await startCluster(t, { inside: true, workers: [], neighbours: false });
const client = await notificationClient(cluster);
const producer = client.service('exam-service');
const admin = client.as('ADMIN');

/** Creates a notification of this user and returns its id. */
async function sent(userId: string, change: Record<string, unknown> = {}): Promise<string> {
  return (await producer.create(userId, change)).data.notification.id;
}

t.test('preferences start empty, merge changes, can be cleared, and belong to their caller', async (t) => {
  const owner = client.as('STUDENT');
  t.strictSame((await owner.preferences()).data, { enabledTypes: {}, mutedUntil: null, updatedAt: null });
  const mutedUntil = '2100-01-01T07:00:00+07:00';
  const set = await owner.prefer({ enabledTypes: { A: false, B: true }, mutedUntil });
  t.match(set, {
    status: 200,
    data: { enabledTypes: { A: false, B: true }, mutedUntil: '2100-01-01T00:00:00.000Z', updatedAt: /^\d{4}-/ },
  });
  t.match((await owner.prefer({ enabledTypes: { A: true } })).data, {
    enabledTypes: { A: true, B: true },
    mutedUntil: '2100-01-01T00:00:00.000Z',
  });
  t.match((await owner.prefer({ mutedUntil: null })).data, { mutedUntil: null });
  t.match((await client.as('ADMIN').preferences()).data, { enabledTypes: {} });
  const refused = await owner.prefer({ enabledTypes: { 'a\n': true, C: 1 }, mutedUntil: 'soon', other: 1 });
  t.match(refused, { status: 400, json: { code: 'VALIDATION_FAILED' } });
  t.strictSame(
    refused.json.details.map(({ path }: { path: string }) => path).sort(),
    ['/enabledTypes/C', '/enabledTypes/a\n', '/mutedUntil', '/other'],
    'every fault at once',
  );
  const many = Object.fromEntries(Array.from({ length: 499 }, (_, n) => [`T${n}`, true]));
  t.match(await owner.prefer({ enabledTypes: many }), { status: 400 }, 'two are there: 501 in all');
  t.match(await owner.prefer({ enabledTypes: { ...many, A: true, B: true } }), { status: 400 });
  const { T0: _one, ...fits } = many;
  t.match(await owner.prefer({ enabledTypes: fits }), { status: 200 });
});

t.test('a disabled type of any name is suppressed on every route', async (t) => {
  const owner = client.as('STUDENT');
  const names = ['a.b.v1', '$set', '$a.b', '%24', 'hạn nộp', '🎓'.repeat(128), 'constructor', ' '];
  const types = Object.fromEntries(names.map((name) => [name, false]));
  t.match(await owner.prefer({ enabledTypes: types }), { status: 200 });
  t.strictSame((await owner.preferences()).data.enabledTypes, types, 'as they were sent');
  for (const name of names) {
    const suppressed = [{ userId: owner.id, reason: 'TYPE_DISABLED' }];
    t.match(await producer.create(owner.id, { type: name }), { status: 200, data: { created: 0, suppressed } }, name);
    t.match((await producer.create(owner.id, { preferenceType: name })).data, { created: 0, suppressed }, name);
    const notifications = [notificationBody(owner.id, { type: name })];
    t.match((await producer.batch({ notifications })).data, { created: 0, suppressed }, name);
    t.match((await producer.event({ notifications })).data, { created: 0, suppressed }, name);
    const event = { preferenceType: name, notifications: [notificationBody(owner.id)] };
    t.match((await producer.event(event)).data, { created: 0, suppressed }, name);
  }
  t.match((await owner.list()).data, { total: 0 });
  t.match(await producer.create(owner.id, { type: 'a.b' }), { status: 201 }, 'another type is allowed');
  t.match(await owner.prefer({ enabledTypes: { '$a.b': true } }), { status: 200 });
  t.match(await producer.create(owner.id, { type: '$a.b' }), { status: 201 }, 'enabled again');
  const forbidden = await client.call('PATCH', '/v1/notifications/preferences', {
    headers: { ...owner.headers, 'content-type': 'application/json' },
    body: '{"enabledTypes":{"__proto__":false}}',
  });
  t.match(forbidden, { status: 400, json: { code: 'INVALID_JSON' } });
  for (const field of ['type', 'preferenceType']) {
    t.match(await producer.create(owner.id, { [field]: 'a\tb' }), {
      status: 400,
      json: { code: 'VALIDATION_FAILED', details: [{ path: `/${field}` }] },
    });
  }
});

t.test('services and admins record delivery attempts, and the user of each can read it', async (t) => {
  const [owner, other] = [client.as('STUDENT'), client.as('STUDENT')];
  const notificationId = newUserId();
  const full = {
    notificationId,
    userId: owner.id,
    status: 'FAILED',
    attempt: 3,
    organizationId: 'org-1',
    providerId: 'p-1',
    nextRetryAt: '2027-01-01T00:00:00.000Z',
    error: 'too slow',
    metadata: { 'a.b': { $c: 1 } },
  };
  const recorded = await producer.recordAttempt(full);
  t.match(recorded, { status: 201, data: { deliveryAttempt: { ...full, channel: 'webhook', provider: 'p' } } });
  t.match(await admin.recordAttempt({ notificationId, userId: other.id, error: null }), {
    status: 201,
    data: { deliveryAttempt: { attempt: 1, error: null, nextRetryAt: null, metadata: null, organizationId: null } },
  });
  t.strictSame((await owner.attempts()).data.items, [recorded.data.deliveryAttempt]);
  t.match((await owner.attempts(`?userId=${other.id}`)).data, { total: 1, items: [{ userId: owner.id }] });
  t.match((await admin.attempts(`?notificationId=${notificationId}`)).data, { total: 2, totalPages: 1 });
  t.match((await admin.attempts(`?notificationId=${notificationId}&status=FAILED`)).data, { total: 1 });
  const at = encodeURIComponent(recorded.data.deliveryAttempt.createdAt);
  t.match((await owner.attempts(`?from=${at}&to=${at}`)).data, { total: 1 }, '`from` and `to` are inclusive');

  for (const field of ['notificationId', 'userId', 'channel', 'provider', 'status']) {
    t.match(await producer.recordAttempt({ [field]: undefined }), {
      status: 400,
      json: { code: 'VALIDATION_FAILED', details: [{ path: new RegExp(field) }] },
    });
  }
  for (const bad of [{ status: 'DONE' }, { attempt: 0 }, { attempt: 1.5 }, { extra: 1 }, { metadata: [] }]) {
    t.match(await producer.recordAttempt(bad), { status: 400 }, JSON.stringify(bad));
  }
  t.match(await producer.recordAttempt({ metadata: { x: 'x'.repeat(8_200) } }), { status: 400 });
});

t.test('a snapshot creates or updates its user’s notification, never another’s, and revives none', async (t) => {
  const owner = client.as('PARENT');
  const id = `legacy:${owner.id}`;
  t.match(await producer.snapshot(id, { userId: owner.id }), {
    status: 201,
    data: { notification: { id, userId: owner.id, createdAt: '2026-01-01T00:00:00.000Z', isRead: false } },
  });
  const read = { userId: owner.id, isRead: true, readAt: '2026-01-02T00:00:00+00:00' };
  t.match(await admin.snapshot(id, read), {
    status: 200,
    data: { notification: { isRead: true, readAt: '2026-01-02T00:00:00.000Z' } },
  });
  t.match(await producer.snapshot(id, { userId: 'thief' }), {
    status: 409,
    json: { code: 'NOTIFICATION_OWNER_MISMATCH' },
  });
  t.match((await owner.list()).data, { total: 1, unreadCount: 0 });
  await owner.remove(id);
  t.match(await producer.snapshot(id, { userId: owner.id }), { status: 200 });
  t.match(await owner.get(id), { status: 404 }, 'a snapshot does not restore a deleted notification');
  const bare = { createdAt: undefined, isRead: undefined };
  t.match((await producer.snapshot(`${id}:bare`, bare)).data.notification, {
    isRead: false,
    readAt: null,
    createdAt: /^\d{4}/,
  });
  const readAt = '2026-01-02T00:00:00.000Z';
  t.match((await producer.snapshot(`${id}:time`, { isRead: undefined, readAt })).data.notification, {
    isRead: true,
    readAt,
  });
  for (const bad of [
    { isRead: 'no' },
    { extra: 1 },
    { title: '' },
    { title: undefined },
    { id: `${id}:other` },
    { actorId: 'a b' },
  ]) {
    const [name = ''] = Object.keys(bad);
    const refused = { status: 400, json: { code: 'VALIDATION_FAILED', details: [{ path: `/${name}` }] } };
    t.match(await producer.snapshot(`${id}:bad`, bad), refused, JSON.stringify(bad));
  }
});

t.test('what a read returns can be put back, and is then as it was', async (t) => {
  const owner = client.as('STUDENT');
  const links = { actorId: 'teacher-1', entity: 'Exam', entityId: 'e-1', preferenceType: 'P', organizationId: 'org-1' };
  const data = { $where: 1, 'a.b': [null, { c: 'đ' }], n: 0.1 };
  await sent(owner.id);
  await sent(owner.id, { ...links, data, content: '' });
  const source = { sourceService: 'exam-service', sourceEventId: owner.id };
  await producer.event({ ...source, notifications: [notificationBody(owner.id, { type: 'SUPPORT_TICKET_REPLY' })] });
  const [newest] = (await owner.list()).data.items;
  await owner.read(newest.id);
  const { items } = (await owner.list()).data;
  t.match(items, [
    { sourceEventRef: `exam-service:${owner.id}`, isRead: true, readAt: /^\d/ },
    { data, ...links },
    { data: null },
  ]);
  for (const notification of items) {
    t.strictSame((await producer.snapshot(notification.id, notification)).data, { notification });
    t.strictSame((await owner.get(notification.id)).data, { notification }, 'unchanged');
    const copy = { ...notification, id: `copy-of-${notification.id}` };
    t.strictSame((await admin.snapshot(copy.id, copy)).data, { notification: copy }, 'in a new place');
    await producer.snapshot(copy.id, { ...copy, entity: 'Course', data: { a: 1 }, actorId: null });
    const changed = { ...copy, entity: 'Course', data: { a: 1 } };
    t.strictSame((await owner.get(copy.id)).data, { notification: changed }, 'null keeps the stored value');
  }
});

t.test('parent alerts admit parents and admins, each to their own', async (t) => {
  const parent = client.as('PARENT');
  const boss = client.as('ADMIN');
  const id = await sent(parent.id, { type: 'WEAK_TOPIC_ALERT' });
  const second = await sent(parent.id);
  for (const role of ['STUDENT', 'TEACHER', 'parent']) {
    const other = client.as(role, parent.id);
    for (const reply of [await other.alerts(), await other.readAlert(id), await other.readAllAlerts()]) {
      t.match(reply, { status: 403, json: { code: 'FORBIDDEN' } }, role);
    }
  }
  t.match((await parent.alerts('?filter=UNREAD&limit=1')).data, {
    items: [{ id: second }],
    total: 2,
    totalPages: 2,
    unreadCount: 2,
  });
  t.match((await boss.alerts(`?userId=${parent.id}`)).data, { total: 0 }, 'an ADMIN sees its own');
  t.match(await boss.readAlert(id), { status: 403 });
  t.match(await client.as('PARENT').readAlert(id), { status: 403 });
  t.match(await parent.readAlert('never-was'), { status: 404, json: { code: 'NOTIFICATION_NOT_FOUND' } });
  t.match(await parent.readAlert(id), { status: 200, data: { notification: { id, isRead: true } } });
  t.match(await boss.readAllAlerts(), { data: { updated: 0 } });
  t.match(await parent.readAllAlerts(), { status: 200, data: { updated: 1 } });
  t.match((await parent.alerts()).data, { unreadCount: 0, total: 2 });
});

t.test('an ADMIN and admin-service read the support summary, and no other caller', async (t) => {
  for (const role of ['STUDENT', 'TEACHER', 'PARENT']) {
    t.match(await client.as(role).summary(), { status: 403, json: { code: 'FORBIDDEN' } }, role);
  }
  const by = (name: string, more = {}) =>
    cluster.request('GET', '/v1/admin/support/notification-summary', {
      headers: { 'x-internal-service': name, 'x-internal-token': cluster.tokens.internal, ...more },
    });
  t.match(await by('admin-service'), { status: 200, json: { data: { notifications: { total: Number } } } });
  const asAdmin = { 'x-actor-id': 'admin-1', 'x-actor-role': 'ADMIN' };
  t.match(await by('api-gateway', asAdmin), { status: 200 }, 'a gateway adds its credentials to every call');
  for (const refused of [by('exam-service'), by('admin-service', { 'x-internal-token': 'wrong', ...asAdmin })]) {
    t.match(await refused, { status: 401, json: { code: 'NOTIFICATION_INTERNAL_UNAUTHORIZED' } });
  }
  const before = (await admin.summary()).data;
  const owner = client.as('STUDENT');
  const id = await sent(owner.id, { type: 'SUPPORT_TICKET_STATUS' });
  await producer.recordAttempt({ notificationId: id, status: 'DEAD_LETTERED' });
  await client.service('admin-service').event({ type: 'support.ticket.notification.v1' });
  const after = (await admin.summary()).data;
  t.equal(after.notifications.total, before.notifications.total + 1);
  t.equal(after.notifications.unread, before.notifications.unread + 1);
  t.match(after, {
    notifications: { byType: { SUPPORT_TICKET_STATUS: 1 } },
    events: { total: before.events.total + 1, byType: { 'support.ticket.notification.v1': 1 } },
    deliveryAttempts: { total: 1, byStatus: { QUEUED: 0, SENT: 0, FAILED: 0, DEAD_LETTERED: 1 } },
    recent: [{ id }],
  });
});
