import t from 'tap';
import { idempotencyKey } from '#api/http/guards/idempotency-key.ts';
import { identity, role } from '#api/http/guards/identity.ts';
import { trustedStart } from '#api/http/guards/senders.ts';
import { ask, echoRoute, JSON_TYPE, openTestDoor, openWire, requestText } from '#testing/doors/test-door.ts';
import { onlyWhenUsable } from './service.ts';

const TRUST = [
  'X-Internal-Service: api-gateway',
  'X-Internal-Token: secret',
  'X-Exam-Runtime-Decision-Source: exam-service',
];
const guarded = echoRoute({
  guards: [trustedStart({ token: 'secret' }), identity(), role('STUDENT'), idempotencyKey()],
});

/** One fault per check, in the contract's order. With all faults present the first is reported; mending it reveals the next. */
const STEPS: { code: string; status: number; good: Partial<Faulty> }[] = [
  { code: 'ROUTE_NOT_FOUND', status: 404, good: { target: '/v1/echo/a?limit=0' } },
  { code: 'METHOD_NOT_ALLOWED', status: 405, good: { method: 'POST' } },
  { code: 'ATTEMPT_START_UNTRUSTED', status: 403, good: { trust: TRUST } },
  { code: 'UNAUTHENTICATED', status: 401, good: { actor: ['X-User-Id: s1', 'X-User-Role: TEACHER'] } },
  { code: 'FORBIDDEN', status: 403, good: { actor: ['X-User-Id: s1', 'X-User-Role: STUDENT'] } },
  { code: 'IDEMPOTENCY_KEY_REQUIRED', status: 400, good: { key: ['Idempotency-Key: k'] } },
  { code: 'UNSUPPORTED_MEDIA_TYPE', status: 415, good: { type: [JSON_TYPE] } },
  { code: 'UNSUPPORTED_ENCODING', status: 415, good: { encoding: ['Content-Encoding: identity'] } },
  { code: 'PAYLOAD_TOO_LARGE', status: 413, good: { body: '{"__proto__":1,"size":"no"}' } },
  { code: 'INVALID_JSON', status: 400, good: { body: '{"size":"no"}' } },
  { code: 'VALIDATION_FAILED', status: 400, good: { body: '{"size":1}', target: '/v1/echo/a?limit=1' } },
];

interface Faulty {
  method: string;
  target: string;
  trust: string[];
  actor: string[];
  key: string[];
  type: string[];
  encoding: string[];
  body: string;
}

t.test('an earlier fault is reported before all later ones', async (t) => {
  const { port } = await openTestDoor(t, { routes: [guarded] });
  const now: Faulty = {
    method: 'PUT',
    target: '/v1/nowhere?a[b]=1',
    trust: [],
    actor: [],
    key: [],
    type: ['Content-Type: text/plain'],
    encoding: ['Content-Encoding: gzip'],
    body: `{"__proto__":"${'x'.repeat(2_000)}"}`,
  };
  for (const step of STEPS) {
    const headers = [...now.trust, ...now.actor, ...now.key, ...now.type, ...now.encoding];
    const reply = await ask(t, port, now.method, now.target, headers, now.body);
    t.match(reply, { status: step.status, json: { success: false, code: step.code } }, step.code);
    t.equal(reply.json.requestId, reply.headers['x-request-id']);
    Object.assign(now, step.good);
  }
  const headers = [...now.trust, ...now.actor, ...now.key, ...now.type, ...now.encoding];
  const { status, json } = await ask(t, port, now.method, now.target, headers, now.body);
  t.equal(status, 200);
  t.strictSame(json, {
    success: true,
    data: {
      params: { id: 'a' },
      query: { limit: 1 },
      body: { size: 1 },
      identity: {
        actor: { id: 's1', role: 'STUDENT' },
        roleHeader: 'x-user-role',
        idempotency: { key: 'k', header: 'idempotency-key' },
      },
    },
    message: 'OK',
  });
});

t.test('a reply has its content type, request id, cache and type headers', async (t) => {
  const { port } = await openTestDoor(t);
  const { headers } = await ask(t, port, 'POST', '/v1/echo/a', ['X-Request-Id: mine-1.2_3']);
  t.match(headers, {
    'content-type': 'application/json; charset=utf-8',
    'x-request-id': 'mine-1.2_3',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    connection: 'keep-alive',
  });
  t.notOk(headers.server);
});

for (const bad of ['a b', 'x'.repeat(129), 'a"b', 'a/b']) {
  t.test(`X-Request-Id ${bad.slice(0, 10)} is replaced`, async (t) => {
    const { port } = await openTestDoor(t);
    const { headers } = await ask(t, port, 'POST', '/v1/echo/a', [`X-Request-Id: ${bad}`]);
    t.match(headers['x-request-id'], /^[0-9a-f-]{36}$/);
  });
}

t.test('X-Request-Id sent twice is replaced', async (t) => {
  const { port } = await openTestDoor(t);
  const { headers } = await ask(t, port, 'POST', '/v1/echo/a', ['X-Request-Id: a', 'X-Request-Id: b']);
  t.match(headers['x-request-id'], /^[0-9a-f-]{36}$/);
});

const NO_ROUTE = [
  '/',
  '//',
  '///',
  '/v1/echo',
  '/v1/echo/',
  '/v1/echo/a/',
  '/v1//echo/a',
  '/V1/echo/a',
  '/v1/echo/%',
  '/v1/echo/%zz',
  '/v1/echo/%ff',
  '/v1/echo/%00',
  '/v1/echo/a%2Fb',
  '/v1/echo/../echo/a',
  '/v1/./echo/a',
  '/v1/echo/a%20b',
  '//x:99999/',
  '/v1/echo/a@b',
  '/v1/echo/a;b=c',
  '/v1/echo/a#b',
  '*',
  '//[',
  `/v1/echo/${'x'.repeat(129)}`,
  '/%2e%2e/v1/echo/a',
  '/__proto__',
  '/v1/constructor',
  'http://test',
];

t.test('malformed targets get 404 and do not stop the door', async (t) => {
  const { port } = await openTestDoor(t);
  for (const target of NO_ROUTE) {
    const { status, json } = await ask(t, port, 'POST', target, [JSON_TYPE], '{}');
    t.match({ status, json }, { status: 404, json: { code: 'ROUTE_NOT_FOUND' } }, target);
  }
  for (const target of [
    '/v1/echo/A.b_c:d-9',
    '/v1/echo/%61',
    'http://other:1/v1/echo/a',
    `/v1/echo/${'x'.repeat(128)}`,
  ]) {
    t.equal((await ask(t, port, 'POST', target)).status, 200, target);
  }
});

t.test('405 lists the allowed methods, also for HEAD, OPTIONS and TRACE', async (t) => {
  const put = echoRoute({ method: 'PUT' });
  const { port, observed } = await openTestDoor(t, { routes: [echoRoute(), put] });
  for (const method of ['GET', 'OPTIONS', 'TRACE', 'DELETE', 'PROPFIND']) {
    const { status, headers, json } = await ask(t, port, method, '/v1/echo/a');
    t.match(
      { status, headers, json },
      { status: 405, headers: { allow: 'POST, PUT' }, json: { code: 'METHOD_NOT_ALLOWED' } },
    );
  }
  t.ok(
    observed.some(({ method }) => method === 'OTHER'),
    'methods cannot be invented in metrics',
  );
  const wire = openWire(t, port);
  wire.write(requestText('HEAD', '/v1/echo/a', ['Connection: close']));
  let text = '';
  wire.socket.on('data', (chunk) => {
    text += chunk;
  });
  await wire.closed;
  t.match(text, /^HTTP\/1\.1 405 /);
  t.ok(text.endsWith('\r\n\r\n'), 'no body');
});

t.test('an upgrade request is handled as an ordinary request', async (t) => {
  const { port } = await openTestDoor(t);
  t.match(await ask(t, port, 'POST', '/v1/echo/a', ['Connection: Upgrade', 'Upgrade: websocket']), { status: 200 });
  t.match(await ask(t, port, 'CONNECT', 'test:443'), { status: 404, json: { code: 'ROUTE_NOT_FOUND' } });
});

t.test('identity headers must be plain and sent once', async (t) => {
  const { port } = await openTestDoor(t, { routes: [echoRoute({ guards: [identity(), role()] })] });
  const send = (...headers: string[]) => ask(t, port, 'POST', '/v1/echo/a', headers);
  const role1 = 'X-User-Role: STUDENT';
  t.match(await send('X-User-Id: a@b.c', role1), { status: 200 });
  t.match(await send('X-User-Id: a', 'X-User-Id: a', role1), { status: 401, json: { code: 'UNAUTHENTICATED' } });
  t.match(await send('X-User-Id: a', role1, 'x-user-role: ADMIN'), { status: 401 });
  t.match(await send('X-User-Id: a b', role1), { status: 401 });
  t.match(await send('X-User-Id:', role1), { status: 401 });
  t.match(await send(`X-User-Id: ${'x'.repeat(129)}`, role1), { status: 401 });
  t.match(await send('X-User-Id: a'), { status: 401 });
  t.match(await send('X-User-Id: a', 'X-User-Role: student'), { status: 403, json: { code: 'FORBIDDEN' } });
});

t.test('query values are single plain strings that the schema converts', async (t) => {
  const { port } = await openTestDoor(t);
  const send = (query: string) => ask(t, port, 'POST', `/v1/echo/a?${query}`);
  t.match(await send('limit=7&q=a%20b&other=1&other=2'), {
    status: 200,
    json: { data: { query: { limit: 7, q: 'a b' } } },
  });
  for (const bad of [
    'limit=0',
    'limit=101',
    'limit=x',
    'limit=1.5',
    'limit=1&limit=1',
    'a[b]=1',
    'a%5B%5D=1',
    'q[]=a',
  ]) {
    t.match(await send(bad), { status: 400, json: { code: 'VALIDATION_FAILED' } }, bad);
  }
  const { json } = await ask(t, port, 'POST', '/v1/echo/a?limit=0', [JSON_TYPE], '{"size":"x","more":1}');
  t.strictSame(json.details.map((detail: { path: string }) => detail.path).sort(), ['/limit', '/more', '/size']);
});

t.test('an error that a handler throws is logged and hidden from the caller', async (t) => {
  const outage = new Error('connection to mongodb://user:hunter22@db refused');
  const routes = [
    echoRoute({
      path: '/v1/bug',
      handle: async () => {
        throw new Error('secret detail');
      },
    }),
    echoRoute({
      path: '/v1/sync',
      handle: () => {
        throw new TypeError('not even a promise');
      },
    }),
    echoRoute({ path: '/v1/odd', handle: () => Promise.reject(undefined) }),
    echoRoute({ path: '/v1/circular', handle: async () => ({ status: 200, data: 1n }) }),
    echoRoute({ path: '/v1/outage', handle: () => Promise.reject(outage) }),
  ];
  const { port, lines } = await openTestDoor(t, { routes, isOutage: (error) => error === outage });
  for (const path of ['/v1/bug', '/v1/sync', '/v1/odd', '/v1/circular']) {
    const { status, json } = await ask(t, port, 'POST', path);
    t.equal(status, 500);
    t.strictSame(Object.keys(json).sort(), ['code', 'message', 'requestId', 'success']);
    t.match(json, { code: 'INTERNAL', message: 'Something went wrong on our side' });
  }
  const down = await ask(t, port, 'POST', '/v1/outage');
  t.match(down, { status: 503, headers: { 'retry-after': '1' }, json: { code: 'UNAVAILABLE' } });
  const logged = lines().filter((line) => line.msg === 'request failed');
  t.equal(logged.length, 4);
  t.match(logged[0], { err: { message: 'secret detail', stack: /server\.test/ } });
  t.notMatch(JSON.stringify(lines()), /hunter22/);
});

t.test('each request logs one line with its route template, but no path, body or token', async (t) => {
  const { port, lines } = await openTestDoor(t, { routes: [guarded] });
  const headers = [...TRUST, 'X-User-Id: student-77', 'X-User-Role: STUDENT', 'Idempotency-Key: key-88', JSON_TYPE];
  await ask(t, port, 'POST', '/v1/echo/id-99', headers, '{"name":"name-66"}');
  const requests = lines().filter((line) => line.msg === 'request');
  t.match(requests, [{ level: 30, method: 'POST', route: '/v1/echo/:id', status: 200, actor: /^[\w-]{16}$/ }]);
  t.notMatch(JSON.stringify(lines()), /student-77|key-88|id-99|name-66|secret/);
});

t.test('a client that leaves aborts its handler, which is not logged as an error', async (t) => {
  const running = Promise.withResolvers<AbortSignal>();
  const ended = Promise.withResolvers<void>();
  const route = echoRoute({
    handle: async ({ signal }) => {
      running.resolve(signal);
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      setImmediate(ended.resolve);
      throw new Error('aborted');
    },
  });
  const { port, lines } = await openTestDoor(t, { routes: [route] });
  const wire = openWire(t, port);
  wire.write(requestText('POST', '/v1/echo/a'));
  const signal = await running.promise;
  t.notOk(signal.aborted);
  wire.socket.destroy();
  await ended.promise;
  t.notOk(lines().some((line) => Number(line.level) >= 40));
  t.match(
    lines().findLast((line) => line.msg === 'request'),
    { status: 499 },
  );
});

const route = echoRoute({
  method: 'GET',
  path: '/v1/attempts/:attemptId/parts/:partId',
  guards: [identity(), role('STUDENT', 'ADMIN')],
});

const list = { ...route, path: '/v1/attempts' };

/** Sends one request as this role and returns the log line of the request. */
async function lineOf(as: string | undefined, target = '/v1/attempts/a-1/parts/p%2D2?q=secret') {
  const { port, lines } = await openTestDoor(t, { routes: [route, list] });
  await ask(t, port, 'GET', target, as === undefined ? [] : ['X-User-Id: u-1', `X-User-Role: ${as}`]);
  return lines().find(({ msg }) => msg === 'request') ?? {};
}

const IDS = { attemptId: 'a-1', partId: 'p-2' };

t.test('the access line of an ADMIN or TEACHER names the role and the objects, refused calls included', async (t) => {
  t.match(await lineOf('ADMIN'), { status: 200, role: 'ADMIN', objectIds: IDS, actor: /^[\w-]{16}$/ });
  const refused = await lineOf('TEACHER');
  t.match(refused, { status: 403, role: 'TEACHER', objectIds: IDS });
  t.notMatch(JSON.stringify(refused), /secret|u-1/, 'neither the query string nor the plain actor id');
  const without = await lineOf('ADMIN', '/v1/attempts');
  t.match(without, { status: 200, role: 'ADMIN' });
  t.notOk('objectIds' in without, 'a path without ids');
});

t.test('the access line of any other caller names neither', async (t) => {
  for (const line of [await lineOf('STUDENT'), await lineOf('admin'), await lineOf(undefined)]) {
    t.notOk('role' in line);
    t.notOk('objectIds' in line);
  }
});

t.test('a path that is no id, and would need escaping, names no object', async (t) => {
  const line = await lineOf('ADMIN', '/v1/attempts/a%22%2C%22x/parts/p');
  t.match(line, { status: 404, route: '(none)' });
  t.notOk('objectIds' in line);
});

t.test('a service answers 503 until the database is usable', async (t) => {
  let usable = false;
  const { port } = await openTestDoor(t, { routes: onlyWhenUsable([echoRoute()], () => usable) });
  t.match(await ask(t, port, 'POST', '/v1/echo/a'), { status: 503, headers: { 'retry-after': '1' } });
  usable = true;
  t.match(await ask(t, port, 'POST', '/v1/echo/a'), { status: 200 });
});
