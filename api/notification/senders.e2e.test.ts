import t from 'tap';
import type { HttpRequest } from '#testing/clients/call.ts';
import { newUserId, notificationBody, notificationClient } from '#testing/clients/notification-client.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { openMongoTap } from '#testing/stores/mongo-tap.ts';
import { requiredEnv } from '#testing/stores/open-test-mongo.ts';

const tap = await openMongoTap(t, requiredEnv('MONGODB_URL'));
const cluster = await startCluster(t, {
  inside: true,
  workers: [],
  doors: 4,
  neighbours: false,
  envOf: {
    web1: { MONGODB_URL: tap.url },
    web2: { NOTIFICATION_TOKEN_EXAM_SERVICE: 'exam-token', NOTIFICATION_INTERNAL_SERVICE_TOKEN: 'notify-token' },
    web3: { INTERNAL_SERVICE_TOKEN: '', NOTIFICATION_INTERNAL_SERVICE_TOKEN: '' },
    web4: { GATEWAY_TOKEN: 'gateway-token' },
  },
});
const client = await notificationClient(cluster);
const { internal } = cluster.tokens;

const PRODUCERS = ['admin-service', 'attempt-service', 'classroom-service', 'exam-service'];
/** Method, path and a valid body. */
const MAKING = [
  ['POST', '/v1/notifications', notificationBody('u')],
  ['POST', '/v1/notifications/batch', { notifications: [notificationBody('u')] }],
  [
    'PUT',
    '/v1/notifications/n-1/snapshot',
    { ...notificationBody('u'), isRead: true, createdAt: '2026-01-01T00:00:00Z' },
  ],
  ['POST', '/v1/delivery-attempts', { notificationId: 'n', userId: 'u', channel: 'c', provider: 'p', status: 'SENT' }],
] as const;
const EVENT = '/v1/events/notification';
const WEAK_TOPIC = '/v1/events/weak-topic-alert';
const UNAUTHORIZED = { status: 401, json: { code: 'NOTIFICATION_INTERNAL_UNAUTHORIZED' } };

const credentials = (service?: string | string[], token?: string | string[]): NonNullable<HttpRequest['headers']> => ({
  'x-internal-service': service,
  'x-internal-token': token,
});

t.test('wrong credentials are refused before the body is read and without a MongoDB command', async (t) => {
  const wrong = [
    credentials('exam-service'),
    credentials('exam-service', 'wrong'),
    credentials('exam-service', ''),
    credentials('exam-service', [internal, internal]),
    credentials(['exam-service', 'exam-service'], internal),
    credentials(undefined, internal),
    credentials('analytics-service', internal),
    credentials('EXAM-SERVICE', internal),
    credentials('__proto__', internal),
  ];
  const headersOf = (path: string) =>
    path === WEAK_TOPIC ? [...wrong, ...PRODUCERS.map((name) => credentials(name, internal))] : wrong;
  tap.clear();
  for (const [method, path] of [...MAKING, ['POST', EVENT], ['POST', WEAK_TOPIC]] as const) {
    for (const headers of headersOf(path)) {
      // Invalid JSON with a wrong media type: a door that read either would answer 400 or 415.
      const reply = await client.call(method, path, {
        headers: { ...headers, 'content-type': 'text/html' },
        body: '{',
      });
      t.match(reply, UNAUTHORIZED, `${method} ${path} ${JSON.stringify(headers)}`);
    }
  }
  for (const path of [EVENT, WEAK_TOPIC]) {
    const asAdmin = { 'x-actor-id': 'a', 'x-actor-role': 'ADMIN' };
    t.match(await client.call('POST', path, { headers: asAdmin, body: {} }), UNAUTHORIZED, 'no ADMIN sends events');
    t.match(await client.call('POST', path, { body: {} }), UNAUTHORIZED);
    const bff = await client.call('POST', EVENT, { headers: credentials('bff-service', internal), body: {} });
    t.match(bff, UNAUTHORIZED, 'the BFF may send weak topics only');
  }
  t.strictSame(tap.commands(), [], 'no MongoDB command');
});

t.test('producers may create notifications, the BFF weak topics, and an ADMIN both', async (t) => {
  for (const name of PRODUCERS) {
    for (const [method, path, body] of MAKING) {
      const reply = await client.call(method, path, { headers: credentials(name, internal), body });
      t.ok([200, 201].includes(reply.status), `${name} ${method} ${path}: ${reply.text}`);
    }
    t.match(await client.service(name).event(), { status: 201, data: { replayed: false } });
  }
  for (const [method, path, body] of MAKING) {
    const reply = await client.call(method, path, { headers: credentials('auth-service', internal), body });
    const mayCreate = path === '/v1/notifications' || path === '/v1/notifications/batch';
    t.equal(reply.status === 201, mayCreate, `auth-service ${method} ${path}: ${reply.text}`);
    if (!mayCreate) t.match(reply, UNAUTHORIZED);
  }
  t.match(await client.service('auth-service').event(), UNAUTHORIZED, 'the auth service sends no events');
  const parentIds = [newUserId()];
  t.match(await client.service('bff-service').weakTopic({ parentIds }), { status: 201, data: { created: 1 } });
  for (const [role, status] of [
    ['ADMIN', 201],
    ['TEACHER', 201],
    ['STUDENT', 403],
    ['PARENT', 403],
  ] as const) {
    t.equal((await client.as(role).alertWeakTopic({ parentIds })).status, status, role);
  }
  for (const [method, path, body] of MAKING) {
    for (const [role, isAllowed] of [
      ['ADMIN', true],
      ['TEACHER', false],
      ['STUDENT', false],
      ['PARENT', false],
    ] as const) {
      const reply = await client.call(method, path, { headers: client.as(role).headers, body });
      t.equal([200, 201].includes(reply.status), isAllowed, `${role} ${method} ${path}: ${reply.status}`);
      if (!isAllowed) t.match(reply, { status: 403, json: { code: 'FORBIDDEN' } });
    }
    t.match(await client.call(method, path, { body }), { status: 401, json: { code: 'UNAUTHENTICATED' } });
  }
});

t.test('wrong internal credentials are refused even beside an ADMIN’s identity', async (t) => {
  const headers = { ...credentials('exam-service', 'wrong'), ...client.as('ADMIN').headers };
  for (const [method, path, body] of MAKING) {
    t.match(await client.call(method, path, { headers, body }), UNAUTHORIZED, path);
  }
});

t.test('a sender’s own token wins over the notification token, which wins over the internal one', async (t) => {
  const asks = (name: string, token: string) => client.service(name, token, {}, 2).event();
  t.equal((await asks('exam-service', 'exam-token')).status, 201);
  t.match(await asks('exam-service', 'notify-token'), UNAUTHORIZED);
  t.equal((await asks('admin-service', 'notify-token')).status, 201);
  t.match(await asks('admin-service', 'exam-token'), UNAUTHORIZED, 'the token of another sender is refused');
  t.match(await asks('admin-service', internal), UNAUTHORIZED);
});

t.test('without any token services get 503 with the cause, and an ADMIN passes', async (t) => {
  const shut = { status: 503, json: { code: 'NOTIFICATION_INTERNAL_TOKEN_NOT_CONFIGURED' } };
  for (const token of ['', internal]) {
    t.match(await client.service('exam-service', token, {}, 3).event(), shut);
    t.match(await client.service('bff-service', token, {}, 3).weakTopic({ parentIds: ['p'] }), shut);
    t.match(await client.service('exam-service', token, {}, 3).create('u'), shut);
  }
  t.match(await client.as('ADMIN', undefined, {}, 3).create(newUserId()), { status: 201 });
});

t.test('with a gateway token set, identity headers require it, internal credentials do not', async (t) => {
  const unauthenticated = { status: 401, json: { code: 'UNAUTHENTICATED' } };
  t.match(await client.as('ADMIN', undefined, {}, 4).create(newUserId()), unauthenticated);
  t.match(await client.as('STUDENT', undefined, {}, 4).list(), unauthenticated);
  const proof = { 'x-gateway-token': 'gateway-token' };
  t.match(await client.as('ADMIN', undefined, proof, 4).create(newUserId()), { status: 201 });
  t.match(await client.as('STUDENT', undefined, proof, 4).list(), { status: 200 });
  t.match(await client.service('exam-service', internal, {}, 4).create(newUserId()), { status: 201 });
  t.match(await client.service('exam-service', internal, {}, 4).event(), { status: 201 });
});
