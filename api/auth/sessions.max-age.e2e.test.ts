import t from 'tap';
import { authClient, claimsIn, newEmail } from '#testing/clients/auth-client.ts';
import { startCluster } from '#testing/processes/cluster.ts';

const DAY_SECONDS = 86_400;

const cluster = await startCluster(t, { inside: true, workers: [], env: { AUTH_SESSION_MAX_DAYS: '1' } });
const client = await authClient(cluster);
const sessions = cluster.mongo.collection<{ _id: string; createdAt: Date; expiresAt: Date }>('auth_sessions');

const INVALID = { status: 401, json: { code: 'AUTH_INVALID_TOKEN' }, headers: { 'www-authenticate': 'Bearer' } };

/** Moves the beginning of the session `seconds` into the past. */
async function begunEarlier(sid: string, seconds: number): Promise<void> {
  const row = await sessions.findOne({ _id: sid });
  if (row === null) throw new Error('no session');
  await sessions.updateOne({ _id: sid }, { $set: { createdAt: new Date(row.createdAt.getTime() - seconds * 1_000) } });
}

t.test('a refresh extends a session, but never past its maximum age', async (t) => {
  const { data } = await client.register();
  const { sid, exp } = claimsIn(data.refreshToken);
  const begun = (await sessions.findOne({ _id: sid }))?.createdAt.getTime() ?? 0;
  const end = Math.floor(begun / 1_000) + DAY_SECONDS;
  t.equal(exp, end, 'a day, where a refresh token would live for 30');
  const refreshed = await client.refresh(data.refreshToken);
  t.equal(claimsIn(refreshed.data.refreshToken).exp, end, 'the same end');
  const expiresAt = new Date(end * 1_000).toISOString();
  t.match((await client.as(refreshed.data.accessToken).sessions()).data, { sessions: [{ id: sid, expiresAt }] });
});

t.test('access tokens expire with their session, which then is refused on every route', async (t) => {
  const email = newEmail();
  const { data: first } = await client.register({ email });
  const { sid } = claimsIn(first.accessToken);
  await begunEarlier(sid, DAY_SECONDS - 300);
  const { status, data: last } = await client.refresh(first.refreshToken);
  t.equal(status, 200);
  const [access, refresh] = [claimsIn(last.accessToken), claimsIn(last.refreshToken)];
  t.equal(access.exp, refresh.exp, 'the access token ends with its session');
  t.equal(last.expiresIn, access.exp - access.iat);
  t.ok(last.expiresIn <= 300);
  t.match(await client.as(last.accessToken).me(), { status: 200 });

  const { data: other } = await client.login(email);
  await begunEarlier(sid, 300);
  t.match(await client.refresh(last.refreshToken), INVALID);
  t.match(await client.as(last.accessToken).me(), INVALID);
  t.match(await client.logout(last.refreshToken), { status: 200, data: { revoked: false } });
  const me = client.as(other.accessToken);
  t.match(await me.sessions(), { data: { sessions: { length: 1, 0: { id: claimsIn(other.accessToken).sid } } } });
  t.match(await me.endSession(sid), { status: 404, json: { code: 'SESSION_NOT_FOUND' } });
});
