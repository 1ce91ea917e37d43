import t from 'tap';
import { authClient, claimsIn, newEmail, PASSWORD } from '#testing/clients/auth-client.ts';
import { retryOn503, tally } from '#testing/clients/crowd.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { throttlesBy } from '#testing/stored/stored-throttles.ts';

const cluster = await startCluster(t, { inside: true, workers: [] });
const client = await authClient(cluster);
const INVALID = { status: 401, json: { code: 'AUTH_INVALID_TOKEN' } };
const NOT_FOUND = { status: 404, json: { code: 'SESSION_NOT_FOUND' } };

async function threeSessions() {
  const email = newEmail();
  await client.register({ email }, { 'user-agent': 'Firefox at home' });
  const second = await client.login(email, PASSWORD, { 'user-agent': 'x'.repeat(1_000) });
  const third = await client.login(email, PASSWORD);
  return { email, second: second.data, third: third.data, me: client.as(third.data.accessToken) };
}

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
  const noted = await cluster.mongo.collection('auth_security_events').find({ type: 'PASSWORD_CHANGED' }).toArray();
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
