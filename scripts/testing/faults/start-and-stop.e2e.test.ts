import t from 'tap';
import { openReceiver } from '#scripts/sandbox/local-server.ts';
import { freePort } from '#scripts/start/services/port.ts';
import { attemptClient } from '#testing/clients/attempt-client.ts';
import { callHttp } from '#testing/clients/call.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { openMongoTap } from '#testing/stores/mongo-tap.ts';
import { requiredEnv } from '#testing/stores/open-test-mongo.ts';
import { until } from '#testing/until.ts';

let toldAnalytics = 0;
/** Receives every call and answers none. */
const hung = await openReceiver(t, () => {
  toldAnalytics += 1;
});

const tap = await openMongoTap(t, requiredEnv('MONGODB_URL'));
const METRICS_PORT = String(await freePort());
const cluster = await startCluster(t, {
  workers: ['grading', 'upkeep'],
  doors: 2,
  neighbours: false,
  env: { ANALYTICS_SERVICE_URL: hung },
  envOf: {
    web2: { MONGODB_URL: tap.url },
    upkeep: { MONGODB_URL: tap.url, METRICS_PORT, OUTBOUND_TIMEOUT_MS: '120000', SHUTDOWN_TIMEOUT_MS: '3000' },
  },
});
const client = await attemptClient(cluster);

const unusable = (name: string) => cluster.output(name).split('waiting for MongoDB or schema migration').length - 1;

/** Starts a process while MongoDB is unreachable for it, and waits until its first connection has failed. */
async function startInVain(name: string): Promise<{ ready: Promise<void> }> {
  const before = unusable(name);
  const ready = cluster.start(name);
  ready.catch(() => undefined);
  await until(`${name} has logged that MongoDB is unavailable`, () => unusable(name) > before);
  return { ready };
}

t.test('processes that start before MongoDB become ready when it is available', async (t) => {
  const names = ['web2', 'upkeep'];
  for (const name of names) t.equal(await cluster.kill(name, 'SIGTERM'), 0, name);
  tap.cut();
  const starts = await Promise.all(names.map(startInVain));
  const door = (path: string) => cluster.request('GET', path, { door: 2 });
  const worker = (path: string) => callHttp(`http://127.0.0.1:${METRICS_PORT}`, 'GET', path);
  for (const get of [door, worker]) {
    t.equal((await get('/healthz')).status, 200);
    t.equal((await get('/readyz')).status, 503);
  }
  const headers = { 'x-user-id': 'student-1', 'x-user-role': 'STUDENT' };
  t.equal((await cluster.request('GET', '/v1/student/attempts', { door: 2, headers })).status, 503);
  tap.join();
  await Promise.all(starts.map(({ ready }) => ready));
  for (const get of [door, worker]) await until('ready', async () => (await get('/readyz')).status === 200);
});

t.test('processes that wait for MongoDB exit with code 0 after SIGTERM', async (t) => {
  const names = ['web2', 'upkeep'];
  for (const name of names) await cluster.kill(name, 'SIGTERM');
  tap.cut();
  await Promise.all(names.map(startInVain));
  for (const name of names) t.equal(await cluster.kill(name, 'SIGTERM'), 0, name);
  tap.join();
});

t.test('an analytics service that hangs delays no grade and no stop, and its report waits unspent', async (t) => {
  await cluster.start('upkeep');
  const { student, id } = await client.sitting();
  t.match(await student.submit(id), { status: 200, data: { status: 'GRADED' } });
  t.equal(await cluster.kill('grading', 'SIGTERM'), 0);
  await until('analytics has been called', () => toldAnalytics > 0);
  t.equal(await cluster.kill('upkeep', 'SIGTERM'), 1, 'the call was cut');
  const report = await cluster.mongo.collection('commands').findOne({ queue: 'upkeep:analytics', subject: id });
  t.match(report, { status: 'PENDING', attempts: 0, lockedUntil: null });
});
