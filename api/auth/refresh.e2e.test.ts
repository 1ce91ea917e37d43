import t from 'tap';
import type { SessionRow, TokenRow } from '#infra/mongo/auth/collections.ts';
import { HOUR } from '#shared/kernel/time.ts';
import { authClient, claimsIn, newEmail } from '#testing/clients/auth-client.ts';
import { crowd, type HttpReply, tally } from '#testing/clients/call.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { until } from '#testing/until.ts';

/** Numbers of the door that is killed and of the door that answers afterwards. */
const VICTIM = 1;
const WITNESS = 2;

// The killed sessions begin at addresses of their own, because registrations of one address are slowed.
const cluster = await startCluster(t, {
  inside: true,
  apart: [`web${VICTIM}`],
  doors: 2,
  workers: [],
  env: { TRUSTED_PROXIES: '127.0.0.1' },
});
const client = await authClient(cluster);
const sessions = cluster.mongo.collection<SessionRow>('auth_sessions');
const tokens = cluster.mongo.collection<TokenRow>('auth_tokens');
const events = cluster.mongo.collection('auth_security_events');

const INVALID = { status: 401, json: { code: 'AUTH_INVALID_TOKEN' }, headers: { 'www-authenticate': 'Bearer' } };

interface SignedIn {
  user: { id: string; email: string };
  accessToken: string;
  refreshToken: string;
}

async function signedIn(): Promise<SignedIn> {
  const { status, data } = await client.register({ email: newEmail() });
  if (status !== 201) throw new Error(`register: ${status}`);
  return data;
}

/** Moves the time at which the token was used `ms` into the past. */
async function usedEarlier(token: string, ms: number): Promise<void> {
  const { jti } = claimsIn(token);
  const row = await tokens.findOne({ _id: jti });
  await tokens.updateOne({ _id: jti }, { $set: { consumedAt: new Date((row?.consumedAt?.getTime() ?? 0) - ms) } });
}

/** Moves the time of use an hour ahead once the token is used, so that the grace of ten seconds does not end during the test. */
async function staysJustUsed(token: string): Promise<void> {
  const { jti } = claimsIn(token);
  await until('the token is used', () => tokens.findOne({ _id: jti, consumedAt: { $ne: null } }));
  await usedEarlier(token, -HOUR);
}

t.test('a refresh returns a new token pair of the same session', async (t) => {
  const first = await signedIn();
  const reply = await client.refresh(first.refreshToken);
  t.match(reply, {
    status: 200,
    json: { success: true, message: 'Refreshed', data: { user: { email: first.user.email } } },
  });
  t.not(reply.data.refreshToken, first.refreshToken);
  t.equal(claimsIn(reply.data.refreshToken).sid, claimsIn(first.refreshToken).sid);
  t.not(claimsIn(reply.data.refreshToken).jti, claimsIn(first.refreshToken).jti);
  const byHeader = await client.call('POST', '/v1/auth/refresh', {
    headers: { authorization: `Bearer ${reply.data.refreshToken}` },
  });
  t.match(byHeader, { status: 200 }, 'the header does as well');
  t.match(await client.as(byHeader.data.accessToken).me(), { status: 200 });
});

t.test('of a hundred concurrent refreshes on two doors one succeeds, and the session stays open', async (t) => {
  const first = await signedIn();
  const refreshes = Array.from({ length: 100 }, (_, n) => client.refresh(first.refreshToken, 1 + (n % 2)));
  await staysJustUsed(first.refreshToken);
  const replies = await Promise.all(refreshes);
  const outcome = tally(replies.map(({ status, json }) => json.code ?? status));
  t.equal(outcome['200'], 1, JSON.stringify(outcome));
  t.strictSame(
    Object.keys(outcome).filter((word) => !['200', 'AUTH_INVALID_TOKEN', 'UNAVAILABLE'].includes(word)),
    [],
  );
  const { sid } = claimsIn(first.refreshToken);
  t.equal(await tokens.countDocuments({ sessionId: sid, consumedAt: null } as never), 1, 'one successor');
  const winner = replies.find(({ status }) => status === 200);
  t.match(await client.refresh(winner?.data.refreshToken), { status: 200 }, 'the winner can refresh again');
  t.equal(await events.countDocuments({ sessionId: sid }), 0, 'no security event is stored');
});

t.test('a used token is only refused within ten seconds; later it ends the session, once', async (t) => {
  const first = await signedIn();
  const next = (await client.refresh(first.refreshToken)).data;
  await staysJustUsed(first.refreshToken);
  t.match(await client.refresh(first.refreshToken), INVALID);
  t.match(await client.as(next.accessToken).me(), { status: 200 }, 'a repeat within ten seconds ends no session');

  await usedEarlier(first.refreshToken, HOUR + 10_000);
  const replies = await Promise.all(
    Array.from({ length: 10 }, (_, n) => client.refresh(first.refreshToken, 1 + (n % 2))),
  );
  t.same(tally(replies.map(({ status }) => status)), { 401: 10 });
  t.match(await client.as(next.accessToken).me(), INVALID, 'the access token of the successor is invalid as well');
  t.match(await client.refresh(next.refreshToken), INVALID);
  const { sid } = claimsIn(first.refreshToken);
  t.match(await events.find({ sessionId: sid }).toArray(), [{ type: 'REFRESH_REUSE', accountId: first.user.id }]);
  t.equal(await events.countDocuments({ sessionId: sid }), 1);
  t.match(await client.login(first.user.email), { status: 200 }, 'other sessions are not concerned');
});

t.test('the token of the body counts alone, whatever the header holds', async (t) => {
  const headers = ['Bearer garbage', 'Basic abc', 'Bearer', ['Bearer a', 'Bearer b']];
  const given = async (path: string, authorization: string | string[], body: object) =>
    client.call('POST', `/v1/auth/${path}`, { headers: { authorization }, body });
  const other = await signedIn();
  for (const header of [...headers, `Bearer ${other.refreshToken}`, null]) {
    const { accessToken, refreshToken } = await signedIn();
    const authorization = header ?? `Bearer ${accessToken}`;
    const refreshed = await given('refresh', authorization, { refreshToken });
    t.match(refreshed, { status: 200 }, `refresh, ${header}`);
    const ended = await given('logout', authorization, { refreshToken: refreshed.data.refreshToken });
    t.match(ended, { status: 200, data: { revoked: true } }, `logout, ${header}`);
    t.match(await given('refresh', authorization, { refreshToken: `${refreshToken}x` }), INVALID, `bad, ${header}`);
    t.match(
      await given('refresh', authorization, { refreshToken, device: 'a' }),
      { status: 400, json: { code: 'VALIDATION_FAILED', details: [{ path: '/device' }] } },
      `the faults beside it are told, ${header}`,
    );
  }
  t.match(await given('logout', `Bearer ${other.refreshToken}`, { refreshToken: 'garbage' }), {
    data: { revoked: false },
  });
  t.match(await client.refresh(other.refreshToken), { status: 200 }, 'the token of the header was never used');
  for (const refreshToken of [null, '']) {
    const first = await signedIn();
    const refreshed = await given('refresh', `Bearer ${first.refreshToken}`, { refreshToken });
    t.match(refreshed, { status: 200 }, `the header counts beside ${JSON.stringify(refreshToken)}`);
  }
});

t.test('refuses a missing token and a token that we did not sign', async (t) => {
  const { accessToken, refreshToken } = await signedIn();
  const bad = [undefined, '', 'a', accessToken, `${refreshToken}x`, refreshToken.slice(0, -2), 'x'.repeat(20_000)];
  for (const token of bad) {
    const body = token === undefined ? {} : { refreshToken: token };
    t.match(await client.call('POST', '/v1/auth/refresh', { body }), INVALID, token?.slice(0, 20) ?? 'none');
    t.match(await client.call('POST', '/v1/auth/logout', { body }), { status: 200, data: { revoked: false } });
  }
  for (const authorization of ['Basic abc', 'Bearer', 'Bearer a b', ['Bearer a', 'Bearer a']]) {
    t.match(
      await client.call('POST', '/v1/auth/refresh', { headers: { authorization }, body: { nonsense: 1 } }),
      INVALID,
    );
    t.match(await client.call('GET', '/v1/auth/me', { headers: { authorization } }), INVALID);
    t.match(await client.call('POST', '/v1/auth/logout', { headers: { authorization } }), { data: { revoked: false } });
  }
  t.match(await client.as(refreshToken).me(), INVALID, 'a refresh token opens nothing');
  t.match(await client.refresh(refreshToken), { status: 200 }, 'the valid token can still be used');
});

t.test('refuses an invalid Bearer token before any fault of the body', async (t) => {
  const { accessToken, refreshToken } = await signedIn();
  for (const token of ['garbage', accessToken, `${refreshToken}x`]) {
    const authorization = `Bearer ${token}`;
    const asked = (text: string, type = 'application/json') =>
      client.call('POST', '/v1/auth/refresh', { headers: { authorization, 'content-type': type }, body: text });
    for (const text of ['{"refreshToken":5}', '{"nonsense":1}', '{', '[]', ''])
      t.match(await asked(text), INVALID, text);
    t.match(await asked('{}', 'text/plain'), INVALID, 'another media type');
    t.match(await asked(`{"refreshToken":"${'x'.repeat(300_000)}"}`), INVALID, 'a body that is too large');
  }
  const authorization = `Bearer ${refreshToken}`;
  const faulty = { headers: { authorization }, body: { refreshToken: 5 } };
  t.match(
    await client.call('POST', '/v1/auth/refresh', faulty),
    { status: 400 },
    'a valid one does not hide the fault',
  );
});

t.test('logout ends the session of a valid token, once', async (t) => {
  const first = await signedIn();
  const next = (await client.refresh(first.refreshToken)).data;
  await usedEarlier(first.refreshToken, 60_000);
  t.match(
    await client.logout(first.refreshToken),
    { status: 200, data: { revoked: false } },
    'a used one ends nothing',
  );
  t.equal(await events.countDocuments({ accountId: first.user.id }), 0, 'no security event is stored');
  t.match(await client.as(next.accessToken).me(), { status: 200 });

  t.match(await client.logout(next.refreshToken), { status: 200, data: { revoked: true } });
  t.match(await client.logout(next.refreshToken), { data: { revoked: false } });
  t.match(await client.as(next.accessToken).me(), INVALID);
  t.match(await client.refresh(next.refreshToken), INVALID);
});

t.test('a suspended account’s tokens work again once it is active; a deleted account’s are invalid', async (t) => {
  const first = await signedIn();
  const status = (now: string) =>
    cluster.mongo.collection('accounts').updateOne({ email: first.user.email }, { $set: { status: now } });
  await status('SUSPENDED');
  t.match(await client.refresh(first.refreshToken), { status: 403, json: { code: 'AUTH_ACCOUNT_DISABLED' } });
  t.match(await client.as(first.accessToken).me(), { status: 403, json: { code: 'AUTH_ACCOUNT_DISABLED' } });
  await status('DELETED');
  t.match(await client.refresh(first.refreshToken), INVALID);
  t.match(await client.as(first.accessToken).me(), INVALID);
  await status('ACTIVE');
  t.match(await client.refresh(first.refreshToken), { status: 200 }, 'the refused refreshes did not consume the token');
});

t.test('a logout that succeeds beside a refresh ends the session', async (t) => {
  for (let round = 0; round < 10; round++) {
    const first = await signedIn();
    const [rotated, out] = await Promise.all([
      client.refresh(first.refreshToken, 1),
      client.logout(first.refreshToken),
    ]);
    if (rotated.status !== 200) continue;
    // The refresh came first. If the logout still found its token valid, it has ended the session too.
    const me = await client.as(rotated.data.accessToken).me();
    t.equal(me.status, out.data.revoked ? 401 : 200);
    t.equal((await client.refresh(rotated.data.refreshToken)).status, out.data.revoked ? 401 : 200);
  }
});

const CROWD = 40;
/** Answered refreshes of the crowd at which the door is killed; the others are at any stage or still queued. */
const DEATHS = [1, 10, 20] as const;
/** Most rounds. A round in which the whole crowd was answered before the kill is repeated. */
const ROUNDS = 12;
/** Longest wait (ms) for a repeated refresh. A real MongoDB keeps the transaction of a dead client for a minute. */
const TIMEOUT_MS = 150_000;

/** One refresh of the crowd. Without `reply` the connection was cut off. */
interface Caught {
  refreshToken: string;
  accessToken: string;
  reply?: HttpReply;
}

/** Refreshes a crowd of sessions at one door and kills that door after `deathAt` answers. */
async function refreshUntilDeath(deathAt: number): Promise<Caught[]> {
  const refreshing = await crowd(CROWD, 8, async (n) => {
    return (await client.register({}, { 'x-forwarded-for': `198.51.100.${n}` }, WITNESS)).data;
  });
  let answered = 0;
  let death: Promise<unknown> | undefined;
  const caught = await Promise.all(
    refreshing.map(async ({ refreshToken, accessToken }) => {
      const reply = await client.refresh(refreshToken, VICTIM).catch(() => undefined);
      if (reply !== undefined) answered += 1;
      if (answered >= deathAt) death ??= cluster.kill(`web${VICTIM}`, 'SIGKILL');
      return { refreshToken, accessToken, ...(reply === undefined ? {} : { reply }) };
    }),
  );
  await death;
  return caught;
}

/** Sends the same token to the living door. It may have to wait for a transaction that the killed door left open. */
async function again({ refreshToken, ...rest }: Caught): Promise<Caught & { repeated: HttpReply }> {
  const used = { _id: claimsIn(refreshToken).jti, consumedAt: { $ne: null } };
  const answer = async () => {
    // Move the time of use ahead: ten seconds after it, the token would count as stolen.
    await tokens.updateOne(used, { $set: { consumedAt: new Date(Date.now() + HOUR) } });
    const reply = await client.refresh(refreshToken, WITNESS);
    return reply.status !== 503 && reply;
  };
  return { refreshToken, ...rest, repeated: await until('the second door answers', answer, TIMEOUT_MS) };
}

t.test('a door killed in the middle of rotations leaves each token used once or not at all', async (t) => {
  const repeats: Promise<(Caught & { repeated: HttpReply })[]>[] = [];
  let cut = 0;
  for (let round = 0; round < DEATHS.length || (cut === 0 && round < ROUNDS); round++) {
    if (round > 0) await cluster.start(`web${VICTIM}`);
    const caught = await refreshUntilDeath(DEATHS[round % DEATHS.length] ?? 1);
    cut += caught.filter(({ reply }) => reply === undefined).length;
    // Not awaited here: a store releases the locks of a dead transaction after seconds or a minute, depending on the store.
    repeats.push(Promise.all(caught.map(again)));
  }
  const ends: string[] = [];
  const sessionIds: string[] = [];
  for (const { refreshToken, accessToken, reply, repeated } of (await Promise.all(repeats)).flat()) {
    const end = `${reply?.status ?? 'cut'}, then ${repeated.status}`;
    ends.push(end);
    // A busy door answers 503. Like a cut, it leaves open whether the token was used.
    t.match(end, /^(200, then 401|(cut|503), then (200|401))$/, end);

    const { jti, sid } = claimsIn(refreshToken);
    sessionIds.push(sid);
    const rows = await tokens.find({ sessionId: sid }).toArray();
    const [successor, ...more] = rows.filter(({ _id }) => _id !== jti);
    t.strictSame(more, [], `${end}: one successor`);
    t.match(successor, { consumedAt: null, successorId: null }, `${end}: the successor is unused`);
    const presented = rows.find(({ _id }) => _id === jti);
    t.match(presented, { consumedAt: Date, successorId: successor?._id }, `${end}: of the token that was used`);
    const session = await sessions.findOne({ _id: sid });
    t.match(session, { endedAt: null, expiresAt: successor?.expiresAt }, `${end}: in a session that goes on`);
    const headers = { authorization: `Bearer ${accessToken}` };
    t.match(await client.call('GET', '/v1/auth/me', { headers, door: WITNESS }), { status: 200 });
  }
  const seen = tally(ends);
  t.comment(JSON.stringify(seen));
  t.ok(seen['200, then 401'] && ends.some((end) => end.startsWith('cut')), 'the door died in the middle of it');
  t.equal(await events.countDocuments({ sessionId: { $in: sessionIds } }), 0, 'no security event is stored');
});
