import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import { answerJson, openReceiver, type ReceivedCall } from '#scripts/http/local-server.ts';
import { openGateway } from './examples.ts';
import { failure, type Scripted, success } from './scripted-server.ts';

const USER = { id: 'student-1', role: 'STUDENT', defaultOrganizationId: 'org-1' };

/** Returns the reply to a login or refresh. The gateway replaces a token 30 s before it expires. */
function session(number: number, freshMs = 600_000): Scripted {
  const tokens = { accessToken: `access-${number}`, refreshToken: `refresh-${number}` };
  return success({ user: USER, ...tokens, tokenType: 'Bearer', expiresIn: 30 + freshMs / 1_000 });
}

async function open(t: Test, answer: (call: ReceivedCall) => Scripted, publicUrl = 'http://localhost:8080') {
  const calls: ReceivedCall[] = [];
  const examhallUrl = await openReceiver(t, (call, response) => {
    calls.push(call);
    const reply = answer(call);
    if (typeof reply === 'function') reply(response);
    else answerJson(response, reply);
  });
  const server = openGateway({ examhallUrl, gatewayToken: 'the-gateway-token', publicUrl });
  t.teardown(() => server.close().closeAllConnections());
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const call = (method: string, path: string, headers: Record<string, string> = {}, body?: string) =>
    fetch(url + path, { method, headers, ...(body === undefined ? {} : { body }) });
  const login = async () => {
    const reply = await call('POST', '/v1/auth/login', {}, '{}');
    const [cookie = ''] = reply.headers.getSetCookie();
    return { cookie, text: await reply.text(), headers: { cookie: cookie.split(';')[0] ?? '' } };
  };
  return { call, calls, login };
}

t.test('a session is a cookie that scripts cannot read, and its tokens stay on the server', async (t) => {
  const { login } = await open(t, () => session(1), 'https://exam.example');
  const { cookie, text } = await login();
  t.match(cookie, /^__Host-session=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; Max-Age=\d+; Secure$/);
  t.strictSame(JSON.parse(text).data, { user: USER });
  t.notMatch(text + cookie, /access-1|refresh-1/);
  const local = await (await open(t, () => session(1))).login();
  t.match(local.cookie, /^session=/);
  t.notMatch(local.cookie, /Secure/);
  for (const publicUrl of ['http://exam.example', 'http://192.168.1.4:8080'])
    t.throws(() => openGateway({ examhallUrl: 'http://127.0.0.1', gatewayToken: '', publicUrl }), /is not https/);
});

t.test('a browser sends its device token from a cookie with its next login, and gets the newest one', async (t) => {
  const withDevice = (number: number, freshMs?: number): Scripted => {
    const reply = session(number, freshMs) as { status: number; body: object };
    return { ...reply, headers: { 'x-device-token': `device.${number}` } };
  };
  const { call, calls } = await open(t, ({ path }) => {
    if (path.includes('login')) return withDevice(1, -1);
    return path.includes('refresh') ? withDevice(2) : success({});
  });
  const login = await call('POST', '/v1/auth/login', { cookie: 'device=device.0' }, '{}');
  t.equal(calls[0]?.headers['x-device-token'], 'device.0');
  t.notMatch(await login.text(), /device\.1/);
  const [own = '', device = ''] = login.headers.getSetCookie();
  t.match(device, /^device=device\.1; Path=\/; HttpOnly; SameSite=Strict; Max-Age=34560000$/);
  const cookie = [own, device].map((one) => one.split(';')[0]).join('; ');
  const list = await call('GET', '/v1/notifications', { cookie });
  t.match(list.headers.getSetCookie(), [/^device=device\.2;/], 'that of the refresh');
  const next = await call('GET', '/v1/notifications', { cookie: cookie.replace('device.1', 'device.2') });
  t.strictSame(next.headers.getSetCookie(), []);
});

t.test('account routes get the token, others the identity, and nothing that a caller forges', async (t) => {
  const { call, calls, login } = await open(t, ({ path }) => (path.includes('login') ? session(1) : success({})));
  const { headers } = await login();
  const forged = { ...headers, 'x-actor-id': 'other', 'x-actor-role': 'ADMIN', authorization: 'Bearer forged' };
  t.equal((await call('GET', '/v1/notifications?limit=5', forged)).status, 200);
  t.equal((await call('GET', '/v1/auth/me', forged)).status, 200);
  const [, list, me] = calls.map((received) => received.headers);
  t.match(list, { 'x-actor-id': 'student-1', 'x-actor-role': 'STUDENT', 'x-organization-id': 'org-1' });
  t.match(list, { 'x-gateway-token': 'the-gateway-token', 'x-forwarded-for': '127.0.0.1', authorization: undefined });
  t.match(me, { authorization: 'Bearer access-1', 'x-actor-id': undefined, cookie: undefined });
  t.equal((await call('GET', '/v1/notifications')).status, 401);
  t.equal((await call('GET', '/v1/notifications', { cookie: 'session=unknown' })).status, 401);
  for (const path of ['/v1/ops/status', '/v1/auth/refresh', '/v1/events/notification', '/healthz', '/v1/parents'])
    t.equal((await call('GET', path, headers)).status, 404, path);
  t.equal((await call('POST', '/v1/auth/login', { origin: 'https://evil.example' }, '{}')).status, 403);
  t.equal((await call('POST', '/v1/auth/login', { origin: 'http://localhost:8080' }, '{}')).status, 200);
  const link = '/v1/notifications/unsubscribe?token=a';
  t.equal((await call('POST', link, { ...headers, origin: 'null' })).status, 200, 'mail programs need no session');
  t.equal(calls.at(-1)?.headers['x-actor-id'], undefined);
  t.equal((await call('POST', '/v1/auth/login', {}, 'x'.repeat(1_048_577))).status, 413);
});

t.test('an old token is exchanged once for all requests, and a refused one once for each', async (t) => {
  let refreshes = 0;
  const { call, calls, login } = await open(t, ({ path, headers }) => {
    if (path.includes('login')) return session(1, -1);
    if (path.includes('refresh')) return session(2 + refreshes++);
    return headers.authorization === 'Bearer access-2' ? failure(401, 'AUTH_INVALID_TOKEN') : success({});
  });
  const { headers } = await login();
  const replies = await Promise.all([1, 2, 3].map(() => call('GET', '/v1/notifications', headers)));
  t.strictSame(
    replies.map(({ status }) => status),
    [200, 200, 200],
  );
  t.equal(refreshes, 1, 'three requests share one exchange');
  t.equal(calls.find(({ path }) => path.includes('refresh'))?.headers.authorization, 'Bearer refresh-1');
  t.equal((await call('GET', '/v1/auth/me', headers)).status, 200);
  t.equal(refreshes, 2);
});

t.test('a wrong password is sent once, and an ended session is forgotten', async (t) => {
  const { call, calls, login } = await open(t, ({ path }) => {
    if (path.includes('login')) return session(1);
    if (path.includes('password')) return failure(401, 'AUTH_INVALID_CREDENTIALS');
    return failure(401, 'AUTH_INVALID_TOKEN');
  });
  const { headers } = await login();
  const change = await call('POST', '/v1/auth/password', headers, '{}');
  t.equal(((await change.json()) as { code: string }).code, 'AUTH_INVALID_CREDENTIALS');
  t.equal(calls.length, 2);
  t.equal((await call('GET', '/v1/auth/me', headers)).status, 401);
  const before = calls.length;
  t.equal((await call('GET', '/v1/notifications', headers)).status, 401);
  t.equal(calls.length, before, 'examhall is not called for a session that has ended');
});

t.test('a session survives a refresh without an answer, and ends with its logout', async (t) => {
  let isAway = true;
  const { call, calls, login } = await open(t, ({ path }) => {
    if (path.includes('login')) return session(1, -1);
    if (path.includes('refresh')) return isAway ? failure(503, 'UNAVAILABLE') : session(2);
    return success({});
  });
  const { headers } = await login();
  t.equal((await call('GET', '/v1/notifications', headers)).status, 502);
  isAway = false;
  t.equal((await call('GET', '/v1/notifications', headers)).status, 200);
  t.equal((await call('POST', '/v1/auth/logout', headers, '{}')).status, 200);
  t.equal(calls.at(-1)?.headers.authorization, 'Bearer refresh-2');
  t.equal((await call('GET', '/v1/notifications', headers)).status, 401);
});

t.test('a stream ends with its token, and the next one has a fresh token', async (t) => {
  let refreshes = 0;
  const { call, calls, login } = await open(t, ({ path }) => {
    if (path.includes('login')) return session(1, 200);
    if (path.includes('refresh')) return session(2 + refreshes++);
    if (path.includes('logout')) return success({});
    return (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('retry: 1\n\n');
    };
  });
  const { headers } = await login();
  const follow = async () => {
    const reply = await call('GET', '/v1/notifications/stream', headers);
    return { status: reply.status, ended: reply.text().catch(() => 'cut') };
  };
  const first = await follow();
  t.equal(await first.ended, 'cut');
  const second = await follow();
  t.strictSame([first.status, second.status, refreshes], [200, 200, 1]);
  t.equal(calls.filter(({ path }) => path.endsWith('/stream')).length, 2);
  t.equal((await call('POST', '/v1/auth/logout', headers, '{}')).status, 200);
  t.equal(await second.ended, 'cut', 'a logout ends the stream');
});
