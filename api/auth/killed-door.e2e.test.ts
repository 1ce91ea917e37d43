import t from 'tap';
import type { SessionRow, TokenRow } from '#infra/mongo/auth/collections.ts';
import { HOUR } from '#shared/kernel/time.ts';
import { authClient, claimsIn } from '#testing/clients/auth-client.ts';
import { crowd, tally } from '#testing/clients/crowd.ts';
import type { HttpReply } from '#testing/clients/http-call.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { until } from '#testing/until.ts';

/** Numbers of the door that is killed and of the door that answers afterwards. */
const VICTIM = 1;
const WITNESS = 2;
const CROWD = 40;
/** Answered refreshes of the crowd at which the door is killed; the others are at any stage or still queued. */
const DEATHS = [1, 10, 20] as const;
/** Most rounds. A round in which the whole crowd was answered before the kill is repeated. */
const ROUNDS = 12;
/** Longest wait (ms) for a repeated refresh. A real MongoDB keeps the transaction of a dead client for a minute. */
const TIMEOUT_MS = 150_000;

/** Each session begins at an address of its own, because registrations of one address are slowed. */
const env = { TRUSTED_PROXIES: '127.0.0.1' };
const cluster = await startCluster(t, { inside: true, apart: [`web${VICTIM}`], doors: 2, workers: [], env });
const client = await authClient(cluster);
const sessions = cluster.mongo.collection<SessionRow>('auth_sessions');
const tokens = cluster.mongo.collection<TokenRow>('auth_tokens');

/** One refresh of the crowd. Without `reply` the connection was cut off. */
interface Caught {
  refreshToken: string;
  accessToken: string;
  reply?: HttpReply;
}

/** Refreshes a crowd of sessions at one door and kills that door after `deathAt` answers. */
async function refreshUntilDeath(deathAt: number): Promise<Caught[]> {
  const signedIn = await crowd(CROWD, 8, async (n) => {
    return (await client.register({}, { 'x-forwarded-for': `198.51.100.${n}` }, WITNESS)).data;
  });
  let answered = 0;
  let death: Promise<unknown> | undefined;
  const caught = await Promise.all(
    signedIn.map(async ({ refreshToken, accessToken }) => {
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
  for (const { refreshToken, accessToken, reply, repeated } of (await Promise.all(repeats)).flat()) {
    const end = `${reply?.status ?? 'cut'}, then ${repeated.status}`;
    ends.push(end);
    // A busy door answers 503. Like a cut, it leaves open whether the token was used.
    t.match(end, /^(200, then 401|(cut|503), then (200|401))$/, end);

    const { jti, sid } = claimsIn(refreshToken);
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
  t.equal(await cluster.mongo.collection('auth_security_events').countDocuments(), 0, 'no security event is stored');
});
