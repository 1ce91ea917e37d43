import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import t from 'tap';
import { scaled } from '#testing/chance.ts';
import { newExamId } from '#testing/clients/attempt-client.ts';
import { crowd, retryOn503, tally } from '#testing/clients/crowd.ts';
import { doorsOf, release, sendHandoff, started, student } from '#testing/clients/sitting.ts';
import { type Cluster, startCluster } from '#testing/processes/cluster.ts';
import { storedBy } from '#testing/stored/stored.ts';
import { startThrowAwayServices } from '#testing/stores/throw-away.ts';
import { until, untilSlowly } from '#testing/until.ts';

type Tap = typeof t;

const POLL_MS = 500;

const { redis, close } = await startThrowAwayServices({ mongodb: false });
t.teardown(close);
if (redis === undefined) throw new Error('these tests need a Redis of their own');
await redis.stop();

// The cluster starts while its Redis is stopped.
const cluster = await startCluster(t, {
  inside: true,
  env: { REDIS_URL: redis.url, WORKER_POLL_INTERVAL_MS: `${POLL_MS}` },
});
const door = doorsOf(cluster);
const stored = storedBy(cluster);

type Checks = Pick<Tap, 'same' | 'equal' | 'match' | 'comment'>;

interface Sat {
  id: string;
  /** Duration of the slowest save. */
  slowestSaveMs: number;
  submitMs: number;
}

/** Runs a whole sitting, with start, saves, submit, handoff and release, and checks that each reply is the normal one. */
async function sit(t: Checks): Promise<Sat> {
  const who = student();
  const plan = { examId: newExamId(), questions: 2, essay: true, showResultMode: 'MANUAL' as const };
  const id = await started(who, door(), plan);
  let slowestSaveMs = 0;
  for (const [questionId, text] of [
    ['q1', '1'],
    ['q2', '2'],
    ['essay', 'bài văn'],
  ] as const) {
    const began = performance.now();
    const { status } = await retryOn503(() => who.save(door(), id, { questionId, text }));
    slowestSaveMs = Math.max(slowestSaveMs, performance.now() - began);
    t.equal(status, 200);
  }
  const began = performance.now();
  const submitted = await retryOn503(() => who.submit(door(), id));
  const submitMs = performance.now() - began;
  t.match(submitted, { status: 200, data: { status: 'GRADED' } }, 'graded within the wait');
  const grade = { sourceEventId: `grade-${id}`, questionId: 'essay', score: 4 };
  t.match(await retryOn503(() => sendHandoff(door(), id, grade)), { status: 200, data: { applied: true } });
  const released = await retryOn503(() => release(door(), plan.examId, `release-${id}`));
  t.match(released, { status: 200, data: { updatedAttempts: 1, queuedNotifications: 2 } });
  t.match((await retryOn503(() => who.read(door(), id))).data, { totalScore: 6, resultVisible: true });
  return { id, slowestSaveMs, submitMs };
}

/** Checks that every command of these attempts has settled, without a spent attempt, and that each notice was delivered once. */
async function checkSettled(t: Checks, sat: readonly Sat[]): Promise<void> {
  const rows = sat.flatMap(({ id }) => [
    `${id}:notification:grade_released`,
    `${id}:notification:grade_released_parent`,
  ]);
  await untilSlowly('the notices arrive', async () => rows.every((id) => cluster.neighbours.notices.has(id)));
  t.same(
    tally(rows.map((id) => cluster.neighbours.notices.get(id) ?? 0)),
    { 1: rows.length },
    'each notice was delivered once',
  );
  t.equal(await stored.commands.countDocuments({ status: 'PENDING', queue: { $ne: 'upkeep' } }), 0);
  t.equal(
    await stored.commands.countDocuments({ attempts: { $gt: 1 }, queue: { $ne: 'upkeep' } }),
    0,
    'no attempt was spent on Redis',
  );
}

async function sitAll(t: Checks, count: number): Promise<Sat[]> {
  const sat = await crowd(count, 3, () => sit(t));
  t.comment(
    `slowest save ${Math.max(...sat.map((one) => one.slowestSaveMs)).toFixed(0)} ms, slowest submit ${Math.max(...sat.map((one) => one.submitMs)).toFixed(0)} ms`,
  );
  return sat;
}

async function readiness(cluster: Cluster): Promise<{ status: number; redis: string }> {
  const { status, data } = await cluster.request('GET', '/readyz');
  return { status, redis: data?.checks?.redis?.status };
}

t.test('a cluster that starts without Redis settles every command by polling', async (t) => {
  await until('the front door is ready and reports Redis as down', async () => {
    const { status, redis } = await readiness(cluster);
    return status === 200 && redis === 'down';
  });
  await checkSettled(t, await sitAll(t, scaled(4, 60)));
});

t.test('a cluster uses Redis again as soon as it starts', async (t) => {
  await redis.start();
  await until('the front door is connected to Redis', async () => (await readiness(cluster)).redis === 'up');
  await checkSettled(t, await sitAll(t, scaled(3, 20)));
});

t.test('a Redis that is emptied continuously loses no command', async (t) => {
  const client = new Redis(redis.url);
  t.teardown(() => client.disconnect());
  let over = false;
  let flushes = 0;
  async function flush(): Promise<void> {
    while (!over) {
      await client.flushall();
      await client.script('FLUSH');
      flushes += 1;
      await delay(20);
    }
  }
  const flushing = flush();
  const sat = await sitAll(t, scaled(4, 60));
  over = true;
  await flushing;
  t.ok(flushes > 1);
  await checkSettled(t, sat);
});

t.test('a Redis that is killed and restarted repeatedly loses no command', async (t) => {
  let over = false;
  let kills = 0;
  async function kill(): Promise<void> {
    while (!over) {
      await redis?.kill9();
      kills += 1;
      await delay(100);
      await redis?.start();
      await delay(200);
    }
  }
  const killing = kill();
  const sat = await sitAll(t, scaled(4, 60));
  over = true;
  await killing;
  t.ok(kills > 0);
  await checkSettled(t, sat);
});

t.test('a Redis that hangs delays no request and loses no command', async (t) => {
  await until('the front door is connected to Redis', async () => (await readiness(cluster)).redis === 'up');
  redis.freeze();
  t.teardown(() => redis.thaw());
  const sat = await sitAll(t, scaled(4, 60));
  await checkSettled(t, sat);
  redis.thaw();
  await until('the front door is connected to Redis again', async () => (await readiness(cluster)).redis === 'up');
  await checkSettled(t, await sitAll(t, 2));
});
