import t, { type Test } from 'tap';
import { openMetrics } from '#infra/metrics/metrics.ts';
import { WORKERS, type WorkerRow } from '#infra/mongo/live-workers.ts';
import { claimCommand } from '#infra/mongo/mailbox/claim.ts';
import { type ClusterReader, openClusterReader } from '#infra/mongo/operations/cluster.ts';
import { migrate } from '#infra/mongo/schema/migrate.ts';
import { testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { ask, openTestDoor } from '#testing/doors/test-door.ts';
import { openNeighbours } from '#testing/neighbours/neighbours.ts';
import { callExamhall } from '#testing/processes/run-examhall.ts';
import { postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { expire, makeSuspect, workerRow } from '#testing/stored/stored-commands.ts';
import { postDelivery } from '#testing/stored/stored-notifications.ts';
import { openTestMongo, requiredEnv } from '#testing/stores/open-test-mongo.ts';
import { actorSubject, actorSubjects, makeActor } from '#testing/suites/actor-subjects.ts';
import { runCommand } from '#workers/run-command.ts';
import { clusterRoutes } from './cluster.ts';
import { queueMetrics } from './metrics.ts';

const SECRET = 'ops-token-of-this-test';
const READ_SECRET = 'read-token-of-this-test';
const OPS = `Authorization: Bearer ${SECRET}`;
const REDIS_URL = requiredEnv('REDIS_URL');

async function open(t: Test, cluster: ClusterReader) {
  const routes = clusterRoutes({ cluster, opsToken: [SECRET], opsReadToken: [READ_SECRET] });
  const { port } = await openTestDoor(t, { routes, schemas: 'product' });
  return (name: string, ...headers: string[]) => ask(t, port, 'GET', `/v1/ops/${name}`, headers);
}

/** Returns the data without what changes from one reading to the next: times and ages. */
const settled = (text: string) =>
  JSON.parse(text, (name, value) => {
    if (name === 'at' || name === 'oldestDueMs') return 0;
    return name === 'text' ? value.replace(/\d+ m?s/g, '0 s') : value;
  });

t.test('each route returns what the command of its name prints with --json', async (t) => {
  const mongo = await openTestMongo(t, { empty: true });
  await migrate(mongo, () => undefined, { isProbed: true });
  const get = await open(
    t,
    openClusterReader(mongo, Date.now, async () => true),
  );
  const now = Date.now();
  await postGrading(mongo, await storeAttempt(mongo, SUBMITTED), { runAt: now - 90_000 });
  await makeSuspect(mongo, await postGrading(mongo, await storeAttempt(mongo, SUBMITTED)));
  const failedAt = new Date(now - 1_000);
  const unanswering = [{ name: 'profile', since: failedAt, lastAt: failedAt }];
  await mongo.db
    .collection<WorkerRow>(WORKERS)
    .insertMany([workerRow('grading', { unanswering }), workerRow('delivery', { queues: [] })]);
  await postDelivery(mongo, { channel: 'email' });
  for (const name of ['status', 'queues', 'workers']) {
    const reply = await get(name, OPS);
    t.equal(reply.status, 200, name);
    t.equal((await get(name, `Authorization: Bearer ${READ_SECRET}`)).status, 200, `${name} by OPS_READ_TOKEN`);
    const { out } = await callExamhall(mongo, [name, '--json'], { env: { REDIS_URL } });
    t.strictSame(settled(JSON.stringify(reply.json.data)), settled(JSON.stringify(JSON.parse(out))), name);
  }
  t.match((await get('status', OPS)).json.data, {
    well: false,
    alarms: [
      { kind: 'backlog' },
      { kind: 'suspect', about: 'grading' },
      { kind: 'dependency-down', remedy: /PROFILE_SERVICE_URL/ },
    ],
    notes: [{ kind: 'not-configured', about: 'delivery:email' }],
    workers: 2,
    due: 1,
  });
  const { queues, actors } = (await get('queues', OPS)).json.data;
  t.match(
    queues.find(({ queue }: { queue: string }) => queue === 'grading'),
    { due: 1, running: 0, suspects: 1, workers: 1 },
  );
  t.match(
    actors.find(({ actor }: { actor: string }) => actor === 'grading'),
    { load: 1, workers: 1, slots: 8 },
  );
  t.equal(actors.length, new Set(queues.map(({ actor }: { actor: string }) => actor)).size);
});

t.test('only holders of OPS_TOKEN or OPS_READ_TOKEN and an ADMIN read the cluster', async (t) => {
  const nothing = () => Promise.reject(new Error('it was read'));
  const get = await open(t, { status: nothing, queues: nothing, workers: nothing });
  for (const name of ['status', 'queues', 'workers']) {
    t.match(await get(name), { status: 401, json: { code: 'UNAUTHENTICATED' } }, name);
    t.match(await get(name, 'Authorization: Bearer wrong'), { status: 401 }, name);
    t.match(await get(name, 'X-User-Id: someone', 'X-User-Role: TEACHER'), { status: 403 }, name);
  }
});

t.test('callers within a second share one reading', async (t) => {
  const mongo = await openTestMongo(t);
  let readings = 0;
  const reader = openClusterReader(mongo, Date.now, async () => {
    readings += 1;
    return true;
  });
  const status = await Promise.all(Array.from({ length: 20 }, () => reader.status()));
  t.equal(readings, 1);
  t.equal(new Set(status).size, 1);
});

t.test('a scrape has a value for every queue and every actor, zeros included', async (t) => {
  const mongo = await openTestMongo(t);
  const metrics = openMetrics({ process: false });
  let now = Date.now();
  queueMetrics(metrics, mongo, () => now);
  const workers = mongo.db.collection<WorkerRow>(WORKERS);
  await postGrading(mongo, await storeAttempt(mongo, SUBMITTED), { runAt: now - 60_000 });
  await workers.insertOne(workerRow('grading', { _id: 'a', seenAt: new Date(now) }));
  await workers.insertOne(workerRow('delivery', { _id: 'b', queues: [], seenAt: new Date(now) }));
  await postDelivery(mongo, { channel: 'email' });
  const first = await metrics.render();
  t.match(first, /^examhall_queue_due\{queue="grading"\} 1$/m);
  t.match(first, /^examhall_queue_oldest_due_seconds\{queue="grading"\} [1-9]\d/m);
  t.match(first, /^examhall_queue_due\{queue="gradenotices:parent"\} 0$/m);
  t.match(first, /^examhall_queue_unserved\{queue="grading"\} 0$/m);
  t.match(first, /^examhall_queue_unserved\{queue="delivery:email"\} 1$/m);
  t.match(first, /^examhall_workers\{actor="grading"\} 1$/m);
  for (const { name } of actorSubjects(mongo, await openNeighbours(t))) {
    if (name !== 'grading' && name !== 'delivery')
      t.match(first, new RegExp(`^examhall_workers\\{actor="${name}"\\} 0$`, 'm'), 'never started');
  }
  await workers.deleteOne({ _id: 'a' });
  t.match(await metrics.render(), /^examhall_workers\{actor="grading"\} 1$/m, 'a scrape a moment later reads nothing');
  now += 6_000;
  t.match(
    await metrics.render(),
    /^examhall_workers\{actor="grading"\} 0$/m,
    'a worker that ended in order is not counted',
  );
});

t.test('a scrape without MongoDB has no gauge values and counts the failure', async (t) => {
  const mongo = await openTestMongo(t);
  const metrics = openMetrics({ process: false });
  let now = Date.now();
  queueMetrics(metrics, mongo, () => now);
  t.match(await metrics.render(), /^examhall_queue_due\{/m);
  await mongo.client.close();
  now += 6_000;
  t.notMatch(await metrics.render(), /^examhall_(queue|workers)/m);
  t.match(
    await metrics.render(),
    /^examhall_scrape_failures_total\{metric="examhall_queue_oldest_due_seconds"\} [1-9]/m,
  );
});

t.test('a scrape counts the commands that a service refuses, and those that are held back', async (t) => {
  const mongo = await openTestMongo(t);
  const neighbours = await openNeighbours(t);
  const metrics = openMetrics({ process: false });
  let ahead = 0;
  queueMetrics(metrics, mongo, () => Date.now() + ahead);
  const read = async (name: string) => {
    ahead += 6_000;
    return (await metrics.render()).split('\n').filter((line) => line.startsWith(`${name}{`) && !line.endsWith(' 0'));
  };
  neighbours.answer = () => ({ status: 403 });
  const notice = await actorSubject('gradenotices', mongo, neighbours).post();
  const actor = makeActor('gradenotices', testWorkerDeps(mongo, neighbours.env));
  await runCommand(testKernel(mongo), actor, notice);
  t.strictSame(await read('examhall_dependency_refused'), [], 'for some seconds');
  ahead = 31_000;
  t.strictSame(await read('examhall_dependency_refused'), ['examhall_dependency_refused{name="notification"} 1']);
  t.strictSame(await read('examhall_queue_held_back'), []);
  ahead = 601_000;
  t.strictSame(await read('examhall_queue_held_back'), [`examhall_queue_held_back{queue="${notice.queue}"} 1`]);
  neighbours.answer = null;
  await expire(mongo, notice);
  await runCommand(testKernel(mongo), actor, notice);
  t.strictSame(await read('examhall_dependency_refused'), []);
  t.strictSame(await read('examhall_queue_held_back'), []);
  const grading = await postGrading(mongo, await storeAttempt(mongo, SUBMITTED));
  await claimCommand(mongo, grading, { workerId: 'hanging', leaseMs: 7_200_000 });
  t.match(await read('examhall_queue_stillest_seconds'), [/^examhall_queue_stillest_seconds\{queue="grading"\} 6\d\d/]);
});
