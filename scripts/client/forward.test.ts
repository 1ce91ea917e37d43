import t from 'tap';
import { operationAt } from '../../clients/typescript/src/forward.ts';
import { failure, openScript, success } from './scripted-server.ts';

const TEACHER = { id: 'teacher-1', role: 'TEACHER' } as const;

t.test('a path names one operation, and one that would name another route after it is resolved names none', (t) => {
  const found = [
    ['GET', '/v1/attempts/a.1@x', 'readAttempt'],
    ['GET', '/v1/attempts/a%40x?detail=../x', 'readAttempt'],
    ['GET', '/v1/notifications/preferences', 'readPreferences'],
    ['GET', '/v1/notifications/stream', 'streamInbox'],
    ['GET', '/v1/notifications/unsubscribe?token=a.b', 'showUnsubscribe'],
    ['DELETE', '/v1/auth/sessions/s-1', 'endSession'],
  ] as const;
  for (const [method, path, name] of found) t.equal(operationAt(method, path)?.name, name, `${method} ${path}`);
  const none = ['', 'ops/..', '.', '..', '%2e%2e', '.%2E', 'a/../b', 'a%2Fb', 'a\\b', 'a#b', 'a b', 'a/'];
  for (const id of none) t.equal(operationAt('GET', `/v1/attempts/${id}`), null, id);
  for (const path of ['/v1/attempts', '/V1/auth/me', '//v1/auth/me', 'http://x/v1/auth/me', '/healthz'])
    t.equal(operationAt('GET', path), null, path);
  t.equal(operationAt('POST', '/v1/auth/me'), null);
  t.end();
});

t.test(
  'a forwarded request has the credentials of its operation, and no header that a browser may forge',
  async (t) => {
    const { client, calls } = await openScript(t, Array(3).fill(success({})));
    const gateway = client.with({ as: TEACHER, token: 'access' });
    const forged = {
      'x-actor-id': 'other',
      'x-actor-role': 'ADMIN',
      'x-user-id': 'other',
      'x-internal-service': 'exam-service',
      'x-internal-token': 'a token',
      'x-gateway-token': 'a token',
      'x-organization-id': 'org-2',
      'x-forwarded-for': '10.0.0.1',
      authorization: 'Bearer forged',
      cookie: 'session=a',
      traceparent: '00-1',
    };
    const headers = {
      ...forged,
      'user-agent': 'a browser',
      'x-request-id': 'mine',
      'x-device-token': 'of the browser',
      'content-type': 'application/json',
    };
    await gateway.forward({ method: 'GET', path: '/v1/notifications', headers, address: '192.0.2.7' });
    await gateway.forward({ method: 'POST', path: '/v1/auth/login', headers, body: '{"a":1}' });
    await gateway.forward({ method: 'GET', path: '/v1/auth/me', headers });
    const own = new Set([
      ...Object.keys(forged),
      'user-agent',
      'x-request-id',
      'x-client-request-id',
      'x-device-token',
    ]);
    const [list, login, me] = calls.map((call) =>
      Object.fromEntries(Object.entries(call.headers).filter(([name]) => own.has(name))),
    );
    const passed = { 'user-agent': 'a browser', 'x-client-request-id': 'mine', 'x-device-token': 'of the browser' };
    t.strictSame(list, {
      ...passed,
      'x-actor-id': 'teacher-1',
      'x-actor-role': 'TEACHER',
      'x-gateway-token': 'the-gateway-token',
      'x-forwarded-for': '192.0.2.7',
    });
    t.strictSame(login, passed);
    t.equal(calls[1]?.text, '{"a":1}');
    t.strictSame(me, { ...passed, authorization: 'Bearer access' });
  },
);

t.test('a reply is returned as it is, once, and a path without an operation is not sent', async (t) => {
  const busy = failure(503, 'UNAVAILABLE', { 'retry-after': '1' });
  const { client, calls } = await openScript(t, [busy, failure(400, 'VALIDATION_FAILED')]);
  const gateway = client.with({ as: TEACHER });
  const get = (path: string) => gateway.forward({ method: 'GET', path, headers: {} });
  const reply = await get('/v1/notifications');
  t.equal(reply.headers.get('retry-after'), '1');
  t.match([reply.status, await reply.json()], [503, { code: 'UNAVAILABLE' }]);
  t.equal((await get('/v1/ai-classifier/jobs/job-1')).status, 400, 'examhall refuses the missing organization');
  const missing = await get('/v1/attempts/../ops/status');
  t.match([missing.status, await missing.json()], [404, { success: false, code: 'ROUTE_NOT_FOUND' }]);
  t.equal(calls.length, 2);
});
