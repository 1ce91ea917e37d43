import t from 'tap';
import { newUserId, notificationBody, notificationClient } from '#testing/clients/notification-client.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { startThrowAwayServices } from '#testing/stores/throw-away.ts';

const cluster = await startCluster(t, { inside: true, workers: [], neighbours: false });
const client = await notificationClient(cluster);
const producer = client.service('exam-service');
const admin = client.as('ADMIN');
const ROLES = ['STUDENT', 'TEACHER', 'PARENT', 'ADMIN'] as const;

/** Creates a notification of this user and returns its id. */
async function sent(userId: string, change: Record<string, unknown> = {}): Promise<string> {
  return (await producer.create(userId, change)).data.notification.id;
}

t.test('the owner of a notification sees every field, absent ones as null', async (t) => {
  const owner = client.as('STUDENT');
  const data = { $where: 1, 'a.b': [null, { c: 'đ' }] };
  const made = await producer.create(owner.id, {
    organizationId: 'org-1',
    preferenceType: 'P',
    actorId: 'a',
    entity: 'Exam',
    entityId: 'e-1',
    data,
  });
  t.match(made, { status: 201, data: { created: 1 } });
  const { notification } = made.data;
  t.strictSame((await owner.get(notification.id)).data, { notification });
  t.strictSame((await owner.list()).data.items, [notification]);
  t.match(notification, { data, isRead: false, readAt: null, sourceEventRef: null, organizationId: 'org-1' });
  const bare = (await producer.create(owner.id)).data.notification;
  const absent = {
    preferenceType: null,
    actorId: null,
    entity: null,
    entityId: null,
    data: null,
    organizationId: null,
  };
  t.match(bare, absent);
  const inOrganization = client.service('exam-service', cluster.tokens.internal, { 'x-organization-id': 'org-2' });
  t.match(
    (await inOrganization.create(owner.id)).data.notification,
    { organizationId: 'org-2' },
    'the organization of the header',
  );
  const named = await inOrganization.create(owner.id, { organizationId: 'org-3' });
  t.match(named.data.notification, { organizationId: 'org-3' }, 'the body’s own wins');
});

t.test('users access their own notifications only, an ADMIN all of them', async (t) => {
  for (const role of ROLES) {
    const owner = client.as(role);
    for (const other of ROLES.map((name) => client.as(name))) {
      const id = await sent(owner.id);
      const isAllowed = other.headers['x-actor-role'] === 'ADMIN';
      const who = `${other.headers['x-actor-role']} at a ${role}'s`;
      const refused = { status: 403, json: { code: 'FORBIDDEN' } };
      t.match(await other.get(id), isAllowed ? { status: 200 } : refused, who);
      t.match(await other.read(id), isAllowed ? { status: 200 } : refused, who);
      t.match(await other.remove(id), isAllowed ? { status: 200 } : refused, who);
      if (!isAllowed) t.match((await owner.get(id)).data.notification, { isRead: false }, 'untouched');
    }
    const id = await sent(owner.id);
    t.match((await owner.get(id)).data.notification, { userId: owner.id, isRead: false });
    t.match(await owner.read(id), { status: 200, data: { notification: { isRead: true } } });
    t.match(await owner.remove(id), { status: 200, data: { notification: { id } } });
    for (const reply of [await owner.get(id), await owner.read(id), await owner.remove(id), await admin.get(id)]) {
      t.match(
        reply,
        { status: 404, json: { code: 'NOTIFICATION_NOT_FOUND' } },
        'a deleted notification is missing for every caller',
      );
    }
  }
  t.match(await admin.get('never-was'), { status: 404, json: { code: 'NOTIFICATION_NOT_FOUND' } });
});

t.test('marking read twice keeps the first time', async (t) => {
  const owner = client.as('STUDENT');
  const id = await sent(owner.id);
  const first = (await owner.read(id)).data.notification;
  t.match(first.readAt, /^\d{4}-/);
  t.strictSame((await owner.read(id)).data.notification, first);
  t.strictSame((await admin.read(id)).data.notification, first);
});

t.test('a list goes on after a notification of its scope, also after a deleted one', async (t) => {
  const owner = client.as('PARENT');
  const ids: string[] = [];
  for (let n = 0; n < 5; n += 1) ids.unshift(await sent(owner.id));
  const foreign = await sent(client.as('STUDENT').id);
  const after = async (list: (query: string) => ReturnType<typeof owner.list>, query: string) => {
    const { data } = await list(query);
    t.match(data, { page: 1, limit: 2, total: 5, totalPages: 3, unreadCount: 5 }, query);
    return data.items.map(({ id }: { id: string }) => id);
  };
  for (const list of [owner.list, owner.alerts]) {
    t.strictSame(await after(list, '?limit=2'), ids.slice(0, 2));
    t.strictSame(await after(list, `?limit=2&before=${ids[1]}`), ids.slice(2, 4));
    t.strictSame(await after(list, `?limit=2&page=1&before=${ids[3]}`), ids.slice(4));
    t.strictSame(await after(list, `?limit=2&before=${ids[4]}`), []);
    t.strictSame(await after(list, '?limit=2&before='), ids.slice(0, 2), 'empty is absent');
    for (const id of [foreign, 'never-was']) {
      t.match(await list(`?before=${id}`), { status: 404, json: { code: 'NOTIFICATION_NOT_FOUND' } }, id);
    }
    const paged = { status: 400, json: { code: 'VALIDATION_FAILED', details: [{ path: '/page' }] } };
    t.match(await list(`?page=2&before=${ids[1]}`), paged);
  }
  t.match((await admin.list(`?userId=${owner.id}&before=${ids[3]}`)).data.items, [{ id: ids[4] }]);
  t.match(await admin.list(`?userId=${owner.id}&before=${foreign}`), { status: 404 });
  t.match((await admin.list(`?limit=1&before=${foreign}`)).data.items, [{ id: ids[0] }], 'of all inboxes');
  await owner.remove(ids[1] ?? '');
  const { data } = await owner.list(`?limit=2&before=${ids[1]}`);
  t.match(
    data,
    { items: [{ id: ids[2] }, { id: ids[3] }], total: 4, unreadCount: 4 },
    'the deleted one keeps its place',
  );
});

t.test('a list is filtered by scope, state and text, and paged', async (t) => {
  const owner = client.as('TEACHER');
  const other = client.as('TEACHER');
  const organizationId = `org-${owner.id}`;
  const ids = [
    await sent(owner.id, { title: 'Lịch thi HỌC KỲ' }),
    await sent(owner.id, { type: 'SUPPORT_TICKET_REPLY', content: 'về học kỳ'.normalize('NFD') }),
    await sent(owner.id, { organizationId }),
  ];
  const [oldest = '', support = '', newest = ''] = ids;
  await sent(other.id);
  await owner.read(oldest);
  const shows = async (query: string, ...wanted: string[]) => {
    const { data } = await owner.list(query);
    t.strictSame(
      data.items.map(({ id }: { id: string }) => id),
      wanted,
      query,
    );
    t.match(data, { page: 1, total: wanted.length, totalPages: wanted.length === 0 ? 0 : 1, unreadCount: 2 }, query);
  };
  await shows('', newest, support, oldest);
  await shows('?filter=ALL', newest, support, oldest);
  await shows('?filter=UNREAD', newest, support);
  await shows('?filter=READ', oldest);
  await shows('?filter=SUPPORT', support);
  await shows(`?q=${encodeURIComponent('học kỳ')}`, support, oldest);
  await shows(`?q=${encodeURIComponent('HỌC KỲ'.normalize('NFD'))}&filter=UNREAD`, support);
  await shows('?q=.*');
  await shows('?q=%00');
  await shows('?q=', newest, support, oldest);
  await shows(`?organizationId=${organizationId}`, newest);
  await shows(`?userId=${other.id}`, newest, support, oldest);
  await shows('?unknown=1', newest, support, oldest);
  t.match(await owner.list('?page=2&limit=2'), {
    data: { items: [{ id: oldest }], page: 2, limit: 2, total: 3, totalPages: 2, unreadCount: 2 },
  });
  t.match((await owner.list('?page=10000&limit=100')).data, { items: [], total: 3, totalPages: 1 });
  t.match((await owner.list('')).data, { page: 1, limit: 20 });

  t.match((await admin.list(`?userId=${owner.id}&filter=READ`)).data, { total: 1, unreadCount: 2 });
  const all = (await admin.list('?limit=100')).data;
  t.ok(
    all.items.some(({ userId }: { userId: string }) => userId === other.id),
    'an ADMIN sees notifications of other users',
  );
  t.match((await admin.list(`?organizationId=${organizationId}`)).data, { total: 1, items: [{ id: newest }] });
  const scoped = client.as('TEACHER', owner.id, { 'x-organization-id': organizationId });
  t.match((await scoped.list()).data, { total: 3 }, 'the header filters nothing');
});

t.test('an invalid query is answered 400 and never clamped', async (t) => {
  for (const query of [
    'page=0',
    'page=-1',
    'page=10001',
    'page=1.5',
    'page=x',
    'limit=0',
    'limit=101',
    'limit=1e1',
    'filter=unread',
    'filter[$ne]=ALL',
    'q[]=x',
    'other[x]=1',
    'page=1&page=1',
    `q=${'x'.repeat(101)}`,
  ]) {
    for (const list of [admin.list, admin.alerts]) {
      t.match(await list(`?${query}`), { status: 400, json: { code: 'VALIDATION_FAILED' } }, query);
    }
  }
  t.match(await admin.list(`?q=${encodeURIComponent('ế'.repeat(100))}`), { status: 200 });
  for (const list of [admin.list, admin.alerts]) {
    t.match(await list('?page=&limit=&filter=&userId=&organizationId=&q='), {
      status: 200,
      data: { page: 1, limit: 20 },
    });
  }
  t.match(await admin.attempts('?channel=&status=&from='), { status: 200 }, 'an empty value is absent');
  for (const query of ['status=sent', 'from=yesterday', 'to=2026-13-01T00:00:00Z', 'limit=101']) {
    t.match(await admin.attempts(`?${query}`), { status: 400, json: { code: 'VALIDATION_FAILED' } }, query);
  }
});

t.test('read-all and delete-all affect the caller’s own notifications only, for an ADMIN too', async (t) => {
  const [owner, other, boss] = [client.as('STUDENT'), client.as('STUDENT'), client.as('ADMIN')];
  for (const { id } of [owner, owner, owner, other, boss]) await sent(id, { organizationId: 'org-9' });
  const scoped = client.as('STUDENT', owner.id, { 'x-organization-id': 'another' });
  await owner.read((await owner.list()).data.items[0].id);
  t.match(await scoped.readAll(), { status: 200, data: { updated: 2 } }, 'the header narrows nothing');
  t.match(await owner.readAll(), { status: 200, data: { updated: 0 } });
  t.match((await other.list()).data, { unreadCount: 1 });
  t.match(await boss.readAll(), { data: { updated: 1 } });
  t.match((await other.list()).data, { unreadCount: 1 }, 'another user’s notification is still unread');
  t.match(await boss.deleteAll(), { data: { deleted: 1 } });
  t.match(await scoped.deleteAll(), { status: 200, data: { deleted: 3 } });
  t.match(await owner.deleteAll(), { data: { deleted: 0 } });
  t.match((await owner.list()).data, { items: [], total: 0, unreadCount: 0 });
  t.match((await other.list()).data, { total: 1 });
});

t.test('a command without a body refuses fields and changes nothing', async (t) => {
  const reader = client.as('PARENT');
  const id = await sent(reader.id);
  const headers = { 'x-actor-id': reader.id, 'x-actor-role': 'PARENT' };
  for (const target of ['read-all', 'delete-all', `${id}/read`, `${id}/delete`]) {
    const refused = await client.call('POST', `/v1/notifications/${target}`, { headers, body: { userId: 'another' } });
    t.match(refused, { status: 400, json: { code: 'VALIDATION_FAILED', details: [{ path: '/userId' }] } }, target);
  }
  for (const target of ['read-all', `${id}/read`]) {
    t.match(
      await client.call('POST', `/v1/parent/alerts/${target}`, { headers, body: { n: 1 } }),
      { status: 400 },
      target,
    );
  }
  t.match((await reader.list()).data, { total: 1, unreadCount: 1 });
  t.match(await client.call('POST', '/v1/notifications/read-all', { headers, body: {} }), { data: { updated: 1 } });
});

t.test('a caller without a role is treated as a plain user', async (t) => {
  const id = newUserId();
  const headers = { 'x-actor-id': id };
  const get = (path: string) => client.call('GET', path, { headers });
  const post = (path: string, body?: unknown) => client.call('POST', path, { headers, body });
  const [first, second] = [await sent(id), await sent(id)];
  const foreign = await sent(newUserId());
  t.match((await get('/v1/notifications')).data, { total: 2, unreadCount: 2 });
  t.match((await get(`/v1/notifications?userId=${newUserId()}`)).data, { total: 2 }, 'the userId parameter is ignored');
  t.match(await get(`/v1/notifications/${first}`), { status: 200, data: { notification: { id: first } } });
  t.match(await post(`/v1/notifications/${first}/read`), { data: { notification: { isRead: true } } });
  t.match((await get('/v1/parent/alerts?filter=UNREAD')).data, { total: 1, unreadCount: 1 });
  t.match(await post(`/v1/parent/alerts/${second}/read`), { status: 200 });
  t.match(await post('/v1/parent/alerts/read-all'), { data: { updated: 0 } });
  t.match(await post('/v1/notifications/read-all'), { data: { updated: 0 } });
  t.match(await post(`/v1/notifications/${first}/delete`), { status: 200 });
  t.match(await post('/v1/notifications/delete-all'), { data: { deleted: 1 } });
  const patch = await client.call('PATCH', '/v1/notifications/preferences', {
    headers,
    body: { enabledTypes: { A: false } },
  });
  t.match(patch, { status: 200, data: { enabledTypes: { A: false } } });
  t.match((await get('/v1/notifications/preferences')).data, { enabledTypes: { A: false } });
  t.match((await get('/v1/delivery-attempts')).data, { total: 0 });
  const weakTopic = { sourceService: 'bff-service', sourceEventId: 'e', studentId: 's', topic: 't', parentIds: ['p'] };
  for (const reply of [
    await get(`/v1/notifications/${foreign}`),
    await post(`/v1/notifications/${foreign}/read`),
    await post(`/v1/notifications/${foreign}/delete`),
    await get('/v1/admin/support/notification-summary'),
    await post('/v1/notifications', notificationBody(id)),
    await post('/v1/notifications/batch', { notifications: [notificationBody(id)] }),
    await post('/v1/alerts/weak-topic', weakTopic),
  ]) {
    t.match(reply, { status: 403, json: { code: 'FORBIDDEN' } });
  }
});

t.test('a missing or incomplete identity is refused', async (t) => {
  const paths = [
    'GET /v1/notifications',
    'GET /v1/notifications/n',
    'GET /v1/notifications/preferences',
    'POST /v1/notifications/read-all',
    'POST /v1/notifications/delete-all',
    'POST /v1/notifications/n/read',
    'POST /v1/notifications/n/delete',
    'PATCH /v1/notifications/preferences',
    'GET /v1/parent/alerts',
    'POST /v1/parent/alerts/read-all',
    'POST /v1/parent/alerts/n/read',
    'POST /v1/alerts/weak-topic',
    'GET /v1/delivery-attempts',
    'GET /v1/admin/support/notification-summary',
  ];
  const good = { 'x-actor-id': 'a', 'x-actor-role': 'ADMIN' };
  for (const path of paths) {
    const [method = '', target = ''] = path.split(' ');
    for (const headers of [
      {},
      { 'x-actor-role': 'ADMIN' },
      { 'x-actor-id': 'a', 'x-actor-role': '' },
      { 'x-user-id': 'a', 'x-user-role': 'ADMIN' },
      { ...good, 'x-actor-id': ['a', 'a'] },
      { ...good, 'x-actor-id': 'two words' },
      { ...good, 'x-organization-id': ['o', 'o'] },
    ]) {
      const reply = await client.call(method, target, { headers, body: '{' });
      t.match(reply, { status: 401, json: { code: 'UNAUTHENTICATED' } }, `${path} ${JSON.stringify(headers)}`);
    }
    const stranger = await client.call(method, target, { headers: { ...good, 'x-actor-role': 'ROOT' }, body: '{' });
    const needsRole = /^\/v1\/(parent|alerts|admin)\//.test(target);
    t.equal(stranger.status === 403, needsRole, `${path} as a stranger: ${stranger.status}`);
  }
});

/** Error code of MongoDB for a query that exceeded its `maxTimeMS`. */
const MAX_TIME_EXPIRED = 50;

t.test(
  'a search that exceeds the time limit of MongoDB is answered 503 with a Retry-After, not as a fault of ours',
  async (t) => {
    const { mongodb, close } = await startThrowAwayServices({ redis: false });
    if (mongodb === undefined) throw new Error('no MongoDB to slow down');
    t.teardown(close);
    const admin = (await openTestMongo(t, { url: mongodb.url })).client.db('admin');
    const cluster = await startCluster(t, { inside: true, workers: [], env: { MONGODB_URL: mongodb.url } });
    const headers = { 'x-actor-id': 'an', 'x-actor-role': 'STUDENT' };
    const search = () => cluster.request('GET', '/v1/notifications?q=thi', { headers });

    const data = { failCommands: ['find', 'aggregate'], errorCode: MAX_TIME_EXPIRED };
    await admin.command({ configureFailPoint: 'failCommand', mode: 'alwaysOn', data });
    const slow = await search();
    await admin.command({ configureFailPoint: 'failCommand', mode: 'off' });
    t.match(slow, { status: 503, json: { success: false, code: 'UNAVAILABLE' }, headers: { 'retry-after': /^\d+$/ } });
    t.match(await search(), { status: 200, data: { total: 0 } });
  },
);
