import t from 'tap';
import { MINUTE } from '#shared/kernel/time.ts';
import { authClient, claimsIn, newEmail, PASSWORD } from '#testing/clients/auth-client.ts';
import { startCluster } from '#testing/processes/cluster.ts';

const cluster = await startCluster(t, { inside: true, doors: 1, workers: [] });
const client = await authClient(cluster);
const NAMES = /^examhall_(logins|refreshes|registrations)_total\{outcome="(\w+)"\} (\d+)$/gm;

/** Returns the counters of the auth service as a text for each label, such as `logins succeeded 1`. */
async function counts(): Promise<string[]> {
  const { text } = await client.call('GET', '/metrics');
  return [...text.matchAll(NAMES)].map(([, name, outcome, value]) => `${name} ${outcome} ${value}`);
}
/** Returns the counters that are not 0. */
const counted = async () => (await counts()).filter((line) => !line.endsWith(' 0')).sort();

t.test('every outcome is counted from 0 on', async (t) => {
  const all = await counts();
  t.equal(all.length, 16);
  t.ok(all.every((line) => line.endsWith(' 0')));

  const email = newEmail();
  const { data } = await client.register({ email });
  t.equal((await client.register({ email })).status, 409);
  t.equal((await client.register({ email: newEmail(), password: 'password' })).status, 400);
  t.equal((await client.login(email, PASSWORD)).status, 200);
  for (let n = 0; n < 5; n++) t.equal((await client.login('nobody@school.vn', 'wrong')).status, 401);
  t.equal((await client.login('nobody@school.vn', 'wrong')).status, 429);
  await cluster.mongo.collection('accounts').updateOne({ email }, { $set: { status: 'SUSPENDED' } });
  t.equal((await client.login(email, PASSWORD)).status, 403);
  t.equal((await client.refresh(data.refreshToken)).status, 403);
  await cluster.mongo.collection('accounts').updateOne({ email }, { $set: { status: 'ACTIVE' } });

  t.equal((await client.refresh(data.refreshToken)).status, 200);
  const used = { _id: claimsIn(data.refreshToken).jti as never };
  const useAt = (at: number) =>
    cluster.mongo.collection('auth_tokens').updateOne(used, { $set: { consumedAt: new Date(at) } });
  await useAt(Date.now() + MINUTE);
  t.equal((await client.refresh(data.refreshToken)).status, 401);
  await useAt(Date.now() - MINUTE);
  for (let n = 0; n < 2; n++) t.equal((await client.refresh(data.refreshToken)).status, 401);
  t.strictSame(await counted(), [
    'logins disabled 1',
    'logins succeeded 1',
    'logins throttled_account 1',
    'logins wrong_password 5',
    'refreshes disabled 1',
    'refreshes invalid 1',
    'refreshes repeated 1',
    'refreshes reuse 1',
    'refreshes succeeded 1',
    'registrations refused 1',
    'registrations succeeded 1',
    'registrations taken 1',
  ]);
});
