import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import { answerJson, openReceiver, type ReceivedCall } from '#scripts/sandbox/local-server.ts';
import { openGateway } from '#testing/clients/examples.ts';
import { failure, hangUp, openScript, type Scripted, success } from '#testing/clients/scripted-server.ts';
import type { SessionEnvelope } from '../../../clients/typescript/src/index.ts';

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

const MINUTES = 60_000;

/** Returns the tokens of a login or a refresh, valid for 15 minutes. */
function issued(number: number): SessionEnvelope {
  const user = { id: 'student-1', role: 'STUDENT', defaultOrganizationId: 'org-1', fullName: `An ${number}` };
  const tokens = { accessToken: `access-${number}`, refreshToken: `refresh-${number}`, tokenType: 'Bearer' };
  return { user, ...tokens, expiresIn: 900 } as SessionEnvelope;
}

/** Returns the reply to a refresh, with its device token. */
function refreshed(number: number): Scripted {
  return {
    status: 200,
    headers: { 'x-device-token': `device-${number}` },
    body: { success: true, data: issued(number) },
  };
}

async function openSession(t: Test, replies: Scripted[]) {
  const script = await openScript(t, replies);
  const session = script.client.with({ token: 'of the gateway' }).session(issued(1));
  const sent = () => script.calls.map(({ path, headers }) => `${path} ${headers.authorization}`);
  const me = () => session.call((client) => client.readMe());
  const get = (path: string, headers: Record<string, string> = {}) => session.forward({ method: 'GET', path, headers });
  return { ...script, session, sent, me, get };
}

/** Returns a reply that is sent when the test decides, and a promise of its request. */
function held(reply: Exclude<Scripted, (response: ServerResponse) => void>) {
  const { promise: arrived, resolve } = Promise.withResolvers<ServerResponse>();
  return { scripted: resolve, arrived, answer: async () => answerJson(await arrived, reply) };
}

const REFUSED = failure(401, 'AUTH_INVALID_TOKEN');
const ok = success({});

t.test('calls that find an old token share one exchange, and its user', async (t) => {
  const exchange = held({ status: 200, body: { success: true, data: issued(2) } });
  const { session, clock, me, get, sent, calls } = await openSession(t, [exchange.scripted, ok, ok, ok]);
  clock.advance(14.5 * MINUTES);
  const all = [me(), get('/v1/notifications'), me()];
  await exchange.answer();
  await Promise.all(all);
  t.strictSame(sent().slice(0, 1), ['/v1/auth/refresh Bearer refresh-1']);
  t.strictSame(sent().slice(1).sort(), [
    '/v1/auth/me Bearer access-2',
    '/v1/auth/me Bearer access-2',
    '/v1/notifications undefined',
  ]);
  t.match(calls.find(({ path }) => path === '/v1/notifications')?.headers, { 'x-actor-id': 'student-1' });
  t.equal(session.user.fullName, 'An 2');
});

t.test('a refused token is exchanged once, also for a call that learns of it after the exchange', async (t) => {
  const late = held({ status: 401, body: { success: false, code: 'AUTH_INVALID_TOKEN', message: 'old' } });
  const { me, get, sent } = await openSession(t, [late.scripted, REFUSED, success(issued(2)), ok, ok]);
  const slow = get('/v1/auth/sessions');
  await late.arrived;
  await me();
  await late.answer();
  t.equal((await slow).status, 200);
  t.strictSame(sent(), [
    '/v1/auth/sessions Bearer access-1',
    '/v1/auth/me Bearer access-1',
    '/v1/auth/refresh Bearer refresh-1',
    '/v1/auth/me Bearer access-2',
    '/v1/auth/sessions Bearer access-2',
  ]);
});

t.test('a call is repeated once, and only if its token is refused', async (t) => {
  const { session, me, get, calls } = await openSession(t, [
    ...[REFUSED, success(issued(2)), REFUSED],
    ...[REFUSED, success(issued(3)), REFUSED],
    ...[failure(401, 'AUTH_INVALID_CREDENTIALS'), failure(401, 'AUTH_INVALID_CREDENTIALS')],
  ]);
  await t.rejects(me(), { code: 'AUTH_INVALID_TOKEN', operation: 'readMe' });
  t.equal((await get('/v1/auth/me')).status, 401);
  t.equal(calls.length, 6);
  const body = { currentPassword: 'wrong', newPassword: 'sông hương núi ngự' };
  const change = session.call((client) => client.changePassword({ body }));
  await t.rejects(change, { code: 'AUTH_INVALID_CREDENTIALS' });
  t.equal((await get('/v1/auth/me')).status, 401);
  t.equal(calls.length, 8);
  t.notOk(session.ended.aborted);
});

t.test('a refused refresh token ends the session for every call, and no other failure does', async (t) => {
  const { session, clock, me, get, calls } = await openSession(t, [
    { status: 403, body: '<h1>a proxy</h1>' },
    failure(503, 'UNAVAILABLE'),
    hangUp,
    failure(403, 'AUTH_ACCOUNT_DISABLED'),
  ]);
  clock.advance(15 * MINUTES);
  await t.rejects(me(), { code: 'FOREIGN_REPLY' });
  await t.rejects(get('/v1/notifications'), { code: 'UNAVAILABLE' });
  await t.rejects(me(), { code: 'NO_REPLY' });
  t.notOk(session.ended.aborted);
  const waiting = [me(), get('/v1/notifications'), me()];
  const [first, second, third] = await Promise.allSettled(waiting);
  t.match([first, third], Array(2).fill({ status: 'rejected', reason: { code: 'AUTH_ACCOUNT_DISABLED' } }));
  t.match(second, { status: 'fulfilled', value: { status: 401 } });
  t.ok(session.ended.aborted);
  await t.rejects(me(), { code: 'AUTH_ACCOUNT_DISABLED' });
  await t.rejects(session.logout(), { code: 'AUTH_ACCOUNT_DISABLED' });
  t.equal(calls.length, 4, 'examhall is not called for a session that has ended');
});

// A logout with a token that a refresh has replaced ends nothing at examhall.
t.test('a logout waits for the exchange beside it, has its token, and lets no waiting call through', async (t) => {
  for (const leave of ['logout', 'forward'] as const) {
    const exchange = held({ status: 200, body: { success: true, data: issued(2) } });
    const { session, clock, me, get, sent } = await openSession(t, [exchange.scripted, success({ revoked: true })]);
    clock.advance(15 * MINUTES);
    const waiting = Promise.allSettled([me(), get('/v1/notifications')]);
    await exchange.arrived;
    const logout = { method: 'POST', path: '/v1/auth/logout', headers: {} };
    const left = leave === 'logout' ? session.logout() : session.forward(logout);
    t.ok(session.ended.aborted, 'the session ends here first');
    await exchange.answer();
    await left;
    t.match(await waiting, [{ reason: { code: 'AUTH_INVALID_TOKEN' } }, { value: { status: 401 } }]);
    t.strictSame(sent(), ['/v1/auth/refresh Bearer refresh-1', '/v1/auth/logout Bearer refresh-2'], leave);
    t.equal((await session.forward(logout)).status, 401);
  }
});

t.test('a session has the last device token, and sends it with a change of the password', async (t) => {
  const { client, clock, calls } = await openScript(t, [
    refreshed(1),
    ok,
    ok,
    refreshed(2),
    ok,
    success(issued(3)),
    ok,
  ]);
  const session = client.session(await client.login({ device: 'device-0', body: { email: 'an@x.vn', password: 'p' } }));
  t.equal(session.deviceToken, 'device-1');
  const body = { currentPassword: 'p', newPassword: 'sông hương núi ngự' };
  await session.call((own) => own.changePassword({ body }));
  await session.call((own) => own.readMe());
  clock.advance(15 * MINUTES);
  await session.forward({
    method: 'POST',
    path: '/v1/auth/password',
    headers: { 'x-device-token': 'forged' },
    body: '{}',
  });
  clock.advance(15 * MINUTES);
  await session.call((own) => own.readMe());
  t.equal(session.deviceToken, 'device-2', 'a reply without one changes nothing');
  t.strictSame(
    calls.map(({ path, headers }) => `${path} ${headers['x-device-token']}`),
    [
      '/v1/auth/login device-0',
      '/v1/auth/password device-1',
      '/v1/auth/me undefined',
      '/v1/auth/refresh undefined',
      '/v1/auth/password device-2',
      '/v1/auth/refresh undefined',
      '/v1/auth/me undefined',
    ],
  );
});

t.test('a stream ends with its session', async (t) => {
  const { session, get, calls } = await openSession(t, [
    (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('retry: 1\n\n');
    },
    failure(400, 'VALIDATION_FAILED'),
  ]);
  const stream = await get('/v1/notifications/stream', { 'last-event-id': 'kept' });
  t.equal(calls[0]?.headers['last-event-id'], 'kept');
  await t.rejects(session.logout(), { code: 'VALIDATION_FAILED' });
  await t.rejects(stream.text(), { code: 'AUTH_INVALID_TOKEN' });
});
