import { spawn } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { globSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import jwt from 'jsonwebtoken';
import t from 'tap';
import { authClient, claimsIn, newEmail, PASSWORD } from '#testing/clients/auth-client.ts';
import { retryOn503, tally } from '#testing/clients/call.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { throttlesBy } from '#testing/stored/stored.ts';

const DAY_SECONDS = 86_400;
const SECRET = 'the secret that signs from today on; 36+';
const OLD_SECRET = 'the secret that signed until today; 36+';

const cluster = await startCluster(t, {
  inside: true,
  doors: 3,
  workers: [],
  env: { AUTH_JWT_SECRET: SECRET, AUTH_JWT_PREVIOUS_SECRETS: OLD_SECRET },
  envOf: {
    // Plays a process that was started before the secret changed.
    web2: { AUTH_JWT_SECRET: OLD_SECRET, AUTH_JWT_PREVIOUS_SECRETS: '' },
    web3: { AUTH_SESSION_MAX_DAYS: '1' },
  },
});
const client = await authClient(cluster);
const sessions = cluster.mongo.collection<{ _id: string; createdAt: Date; expiresAt: Date }>('auth_sessions');
const INVALID = { status: 401, json: { code: 'AUTH_INVALID_TOKEN' }, headers: { 'www-authenticate': 'Bearer' } };
const NOT_FOUND = { status: 404, json: { code: 'SESSION_NOT_FOUND' } };

async function threeSessions() {
  const email = newEmail();
  await client.register({ email }, { 'user-agent': 'Firefox at home' });
  const second = await client.login(email, PASSWORD, { 'user-agent': 'x'.repeat(1_000) });
  const third = await client.login(email, PASSWORD);
  return { email, second: second.data, third: third.data, me: client.as(third.data.accessToken) };
}

/** Client of the door whose sessions last a day at most. */
const daily = await authClient(cluster, 3);

t.test('lists the live sessions and marks the caller’s own', async (t) => {
  const { second, third, me } = await threeSessions();
  await client.refresh(second.refreshToken);
  const { sessions } = (await me.sessions()).data;
  t.equal(sessions.length, 3);
  t.same(sessions.map((session: { current: boolean }) => session.current).filter(Boolean), [true]);
  t.match(
    sessions.find((session: { current: boolean }) => session.current),
    { id: claimsIn(third.accessToken).sid, userAgent: null },
  );
  t.same(
    sessions
      .map(({ userAgent }: { userAgent: string | null }) => userAgent?.length ?? 0)
      .sort((a: number, b: number) => a - b),
    [0, 'Firefox at home'.length, 300],
  );
  t.match(sessions[0], { userAgent: /^x+$/ }, 'the session that was used last comes first');
});

t.test('shows a user agent that was sent in UTF-8 as text, and any other as it came', async (t) => {
  for (const [sent, shown] of [
    [Buffer.from('Điện thoại của An').toString('latin1'), 'Điện thoại của An'],
    ['caf\xe9', 'café'],
  ] as const) {
    const { data } = await client.register({ email: newEmail() }, { 'user-agent': sent });
    t.match((await client.as(data.accessToken).sessions()).data, { sessions: [{ userAgent: shown }] });
  }
});

t.test('only the owner can end a session by its id', async (t) => {
  const { second, me } = await threeSessions();
  const stranger = client.as((await client.register()).data.accessToken);
  const id = claimsIn(second.accessToken).sid;
  t.match(await stranger.endSession(id), NOT_FOUND);
  t.match(await me.endSession('nobody'), NOT_FOUND);
  t.match(await me.endSession(id), { status: 200, data: { revoked: true } });
  t.match(await me.endSession(id), NOT_FOUND);
  t.match(await client.as(second.accessToken).me(), INVALID);
  t.match(await client.refresh(second.refreshToken), INVALID);
  t.equal((await me.sessions()).data.sessions.length, 2);
});

t.test('revoke-others ends every session except the caller’s', async (t) => {
  const { second, third, me } = await threeSessions();
  const headers = { authorization: `Bearer ${third.accessToken}` };
  const misread = { headers, body: { keep: claimsIn(second.accessToken).sid } };
  t.match(await client.call('POST', '/v1/auth/sessions/revoke-others', misread), {
    status: 400,
    json: { code: 'VALIDATION_FAILED', details: [{ path: '/keep' }] },
  });
  t.match(await me.me(), { status: 200 }, 'an invalid request ends no session');
  t.match(await me.endOthers(), { status: 200, data: { revoked: 2 } });
  t.match(await me.endOthers(), { data: { revoked: 0 } });
  t.match(await client.as(second.accessToken).me(), INVALID);
  t.match(await me.me(), { status: 200 });
});

t.test('a password change ends the other sessions and keeps the caller’s', async (t) => {
  const { email, second, me } = await threeSessions();
  const next = 'một mật khẩu khác hẳn';
  t.match(await me.changePassword('wrong', next), { status: 401, json: { code: 'AUTH_INVALID_CREDENTIALS' } });
  t.match(await me.changePassword(PASSWORD, email), {
    status: 400,
    json: { code: 'AUTH_WEAK_PASSWORD', details: [{ path: '/newPassword' }] },
  });
  t.match(await me.changePassword(PASSWORD, next), { status: 200, data: { revoked: 2 } });
  t.match(await client.as(second.accessToken).me(), INVALID);
  t.match(await me.me(), { status: 200 });
  t.match(await client.login(email, PASSWORD), { status: 401 });
  t.match(await client.login(email, next), { status: 200 });
  const accountId = claimsIn(second.accessToken).sub;
  const noted = await cluster.mongo
    .collection('auth_security_events')
    .find({ type: 'PASSWORD_CHANGED', accountId })
    .toArray();
  t.equal(noted.length, 1);
});

t.test('wrong current passwords count in the same throttle as login attempts', async (t) => {
  const { email, me } = await threeSessions();
  for (let n = 0; n < 5; n++) t.equal((await me.changePassword('wrong', 'một mật khẩu khác hẳn')).status, 401);
  // The account has signed in from here, so its login attempts from here have a count of their own.
  await throttlesBy(cluster).holdPair(email, '127.0.0.1');
  t.match(await me.changePassword(PASSWORD, 'một mật khẩu khác hẳn'), {
    status: 429,
    json: { code: 'AUTH_THROTTLED' },
  });
  t.match(await client.login(email, PASSWORD), { status: 429 });
});

t.test('one of several concurrent password changes succeeds', async (t) => {
  const { me } = await threeSessions();
  const replies = await Promise.all(
    Array.from({ length: 4 }, (_, n) => retryOn503(() => me.changePassword(PASSWORD, `một mật khẩu khác hẳn ${n}`))),
  );
  t.same(tally(replies.map(({ status }) => status)), { 200: 1, 401: 3 });
});

/** Moves the beginning of the session `seconds` into the past. */
async function begunEarlier(sid: string, seconds: number): Promise<void> {
  const row = await sessions.findOne({ _id: sid });
  if (row === null) throw new Error('no session');
  await sessions.updateOne({ _id: sid }, { $set: { createdAt: new Date(row.createdAt.getTime() - seconds * 1_000) } });
}

t.test('a refresh extends a session, but never past its maximum age', async (t) => {
  const { data } = await daily.register();
  const { sid, exp } = claimsIn(data.refreshToken);
  const begun = (await sessions.findOne({ _id: sid }))?.createdAt.getTime() ?? 0;
  const end = Math.floor(begun / 1_000) + DAY_SECONDS;
  t.equal(exp, end, 'a day, where a refresh token would live for 30');
  const refreshed = await daily.refresh(data.refreshToken);
  t.equal(claimsIn(refreshed.data.refreshToken).exp, end, 'the same end');
  const expiresAt = new Date(end * 1_000).toISOString();
  t.match((await daily.as(refreshed.data.accessToken).sessions()).data, { sessions: [{ id: sid, expiresAt }] });
});

t.test('access tokens expire with their session, which then is refused on every route', async (t) => {
  const email = newEmail();
  const { data: first } = await daily.register({ email });
  const { sid } = claimsIn(first.accessToken);
  await begunEarlier(sid, DAY_SECONDS - 300);
  const { status, data: last } = await daily.refresh(first.refreshToken);
  t.equal(status, 200);
  const [access, refresh] = [claimsIn(last.accessToken), claimsIn(last.refreshToken)];
  t.equal(access.exp, refresh.exp, 'the access token ends with its session');
  t.equal(last.expiresIn, access.exp - access.iat);
  t.ok(last.expiresIn <= 300);
  t.match(await daily.as(last.accessToken).me(), { status: 200 });

  const { data: other } = await daily.login(email);
  await begunEarlier(sid, 300);
  t.match(await daily.refresh(last.refreshToken), INVALID);
  t.match(await daily.as(last.accessToken).me(), INVALID);
  t.match(await daily.logout(last.refreshToken), { status: 200, data: { revoked: false } });
  const me = daily.as(other.accessToken);
  t.match(await me.sessions(), { data: { sessions: { length: 1, 0: { id: claimsIn(other.accessToken).sid } } } });
  t.match(await me.endSession(sid), { status: 404, json: { code: 'SESSION_NOT_FOUND' } });
});

const ROOT = path.resolve(import.meta.dirname, '../..');
const signedIn = async (door: number) => (await client.register({}, {}, door)).data;

/** Returns the JavaScript lines for verifying an access token that the documents show, each variant once. */
async function verifiersIn(pages: readonly string[]): Promise<string[]> {
  const texts = await Promise.all(pages.map((page) => readFile(path.join(ROOT, page), 'utf8')));
  const shown = texts.flatMap((page) => [...page.matchAll(/```js\n(import jwt [^`]*)```/g)]);
  return [...new Set(shown.map(([, code = '']) => code.trim()))];
}

/** Runs the documented lines in a process of their own. Resolves with the claims, or with the error that they throw. */
async function verify(code: string, token: string, secret: string) {
  const script = `const token = process.env.TOKEN;\n${code}\nconsole.log(JSON.stringify(payload));`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    cwd: ROOT,
    env: { PATH: process.env.PATH, TOKEN: token, AUTH_JWT_SECRET: secret },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [out, error] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  return out === '' ? { error } : { claims: JSON.parse(out) };
}

t.test('the documented three lines verify an access token of a running door and refuse other tokens', async (t) => {
  const [code = '', ...others] = await verifiersIn(['README.md', ...globSync('docs/**/*.md', { cwd: ROOT })]);
  t.strictSame(others, [], 'every document shows the same lines');
  t.match(code.split('\n'), { length: 5, 0: /^import/, 1: '' }, 'beside the import');
  const { user, accessToken, refreshToken } = await signedIn(1);
  t.match(await verify(code, accessToken, SECRET), {
    claims: { sub: user.id, role: 'STUDENT', email: user.email, defaultOrganizationId: 'local', iss: 'examhall' },
  });
  t.match(await verify(code, accessToken, OLD_SECRET), { error: /invalid signature/ });
  t.match(
    await verify(code, refreshToken, SECRET),
    { error: /invalid signature/ },
    'a refresh token is not an access token',
  );
  t.match(await verify(code, `${accessToken.slice(0, -2)}AA`, SECRET), { error: /invalid signature/ });
  const { kid } = headerOf(accessToken);
  const other = (typ: string, change: object) =>
    jwt.sign({ ...claimsIn(accessToken), ...change }, SECRET, { header: { alg: 'HS256', typ, kid } });
  t.match(
    await verify(code, other('at+jwt', {}), SECRET),
    { claims: { sub: user.id } },
    'the test signs as the door does',
  );
  t.match(await verify(code, other('JWT', {}), SECRET), { error: /not an access token/ });
  t.match(await verify(code, other('at+jwt', { type: 'refresh' }), SECRET), { error: /not an access token/ });
  t.match(await verify(code, other('at+jwt', { iss: 'else' }), SECRET), { error: /issuer invalid/ });
});

t.test('the signature of a token is a plain HMAC keyed with the bytes of the secret', async (t) => {
  const { accessToken, refreshToken } = await signedIn(1);
  const macOf = (token: string) => {
    const signed = token.slice(0, token.lastIndexOf('.'));
    return createHmac('sha256', Buffer.from(SECRET, 'utf8')).update(signed).digest('base64url');
  };
  t.equal(macOf(accessToken), accessToken.split('.')[2]);
  t.not(macOf(refreshToken), refreshToken.split('.')[2], 'only access tokens are signed with the bare secret');
});

t.test('access and refresh tokens of the previous secret are valid while it is configured', async (t) => {
  const [before, after] = [await signedIn(2), await signedIn(1)];
  t.not(headerOf(before.accessToken).kid, headerOf(after.accessToken).kid);
  const me = (token: string, door: number) =>
    client.call('GET', '/v1/auth/me', { headers: { authorization: `Bearer ${token}` }, door });
  t.match(await me(before.accessToken, 1), { status: 200 });
  const refreshed = await client.refresh(before.refreshToken, 1);
  t.match(refreshed, { status: 200 });
  t.equal(headerOf(refreshed.data.accessToken).kid, headerOf(after.accessToken).kid, 'the current secret signs');
  t.equal(headerOf(refreshed.data.refreshToken).kid, headerOf(after.refreshToken).kid);

  t.match(await me(after.accessToken, 2), INVALID, 'a process that does not know the secret');
  t.match(await client.refresh(after.refreshToken, 2), INVALID);
  t.match(
    await client.refresh(after.refreshToken, 1),
    { status: 200 },
    'the refusal by the other process did not consume the token',
  );
});

// biome-ignore lint/suspicious/noExplicitAny: headers are matched by the test, field by field
function headerOf(token: string): any {
  return JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString());
}
