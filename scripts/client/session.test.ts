import type { ServerResponse } from 'node:http';
import t, { type Test } from 'tap';
import { answerJson } from '#scripts/http/local-server.ts';
import type { SessionEnvelope } from '../../clients/typescript/src/index.ts';
import { failure, hangUp, openScript, type Scripted, success } from './scripted-server.ts';

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

async function open(t: Test, replies: Scripted[]) {
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
  const { session, clock, me, get, sent, calls } = await open(t, [exchange.scripted, ok, ok, ok]);
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
  const { me, get, sent } = await open(t, [late.scripted, REFUSED, success(issued(2)), ok, ok]);
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
  const { session, me, get, calls } = await open(t, [
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
  const { session, clock, me, get, calls } = await open(t, [
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
    const { session, clock, me, get, sent } = await open(t, [exchange.scripted, success({ revoked: true })]);
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
  const { session, get, calls } = await open(t, [
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
