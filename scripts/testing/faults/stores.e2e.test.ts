import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import t from 'tap';
import { openChance, scaled } from '#testing/chance.ts';
import { newExamId } from '#testing/clients/attempt-client.ts';
import { crowd, type HttpReply, NoReply, retryOn503, tally } from '#testing/clients/call.ts';
import { doorsOf, readAsTeacher, release, sendHandoff, started, student } from '#testing/clients/sitting.ts';
import { type Cluster, startCluster } from '#testing/processes/cluster.ts';
import { storedBy } from '#testing/stored/stored.ts';
import { startThrowAwayServices } from '#testing/stores/throw-away.ts';
import { until, untilSlowly } from '#testing/until.ts';

const QUESTIONS = 4;
const STUDENTS = 6;
const MAX_ATTEMPTS = 2;

const chance = openChance((line) => t.comment(line));
// Durable, as `npm start` runs it: otherwise a killed stand-in may lose acknowledged writes.
const { mongodb, close: closeMongodb } = await startThrowAwayServices({ redis: false, durable: true });
t.teardown(closeMongodb);
if (mongodb === undefined) throw new Error('these tests need a MongoDB of their own');

const cluster = await startCluster(t, {
  inside: true,
  doors: 2,
  env: {
    MONGODB_URL: mongodb.url,
    WORKER_MAX_ATTEMPTS: `${MAX_ATTEMPTS}`,
    WORKER_POLL_INTERVAL_MS: '250',
    // Longer than an outage: if the reply to a claim is lost and its lease expires, the attempt is spent.
    WORKER_LEASE_MS: '300000',
  },
});
const door = doorsOf(cluster, 2);
const stored = storedBy(cluster);

/** The newest acknowledged version and its text, by attempt and question. */
type Ledger = Map<string, { version: number; text: string }>;

/** Returns the reply, or null without a reply: the request may or may not have taken effect. */
async function asked<Data>(request: Promise<HttpReply<Data>>): Promise<HttpReply<Data> | null> {
  try {
    return await request;
  } catch (error) {
    if (error instanceof NoReply) return null;
    throw error;
  }
}

const POLL_MS = 500;

const { redis, close: closeRedis } = await startThrowAwayServices({ mongodb: false });
t.teardown(closeRedis);
if (redis === undefined) throw new Error('these tests need a Redis of their own');
await redis.stop();

// The cluster starts while its Redis is stopped.
const redisCluster = await startCluster(t, {
  inside: true,
  env: { REDIS_URL: redis.url, WORKER_POLL_INTERVAL_MS: `${POLL_MS}` },
});

t.test('acknowledged answers survive a killed MongoDB', async (t) => {
  const ledger: Ledger = new Map();
  const examId = newExamId();
  const crew = await crowd(STUDENTS, 3, async (n) => {
    const who = student();
    return { who, id: await started(who, door(n), { examId, questions: QUESTIONS }) };
  });
  const statuses: string[] = [];
  const refusals: HttpReply<unknown>[] = [];
  let over = false;
  let acked = 0;

  async function keepSaving({ who, id }: (typeof crew)[number], lane: number): Promise<void> {
    for (let n = 0; !over; n++) {
      const questionId = `q${1 + (n % QUESTIONS)}`;
      const text = `${lane}.${n}`;
      const reply = await asked(who.save(door(n), id, { questionId, text }));
      statuses.push(reply === null ? 'no reply' : `${reply.status} ${reply.code ?? ''}`.trim());
      if (reply === null) continue;
      if (reply.status !== 200) {
        refusals.push(reply);
        await delay(20);
        continue;
      }
      acked += 1;
      const version = reply.data.answers.find((answer) => answer.questionId === questionId)?.serverVersion ?? 0;
      ledger.set(`${id} ${questionId}`, { version, text });
    }
  }

  const saving = crew.map(keepSaving);
  for (let kill = 0; kill < scaled(2, 15); kill++) {
    const before = acked;
    const enough = before + 20 + chance.below(20);
    await until('answers are being saved', () => acked > enough);
    await mongodb.kill9();
    const seen = refusals.length;
    await until('a front door has refused a save', () => refusals.length > seen);
    await mongodb.start();
  }
  const before = acked;
  await until('answers are being saved again', () => acked > before + 20);
  await until('every answer has been acknowledged', () => ledger.size === STUDENTS * QUESTIONS);
  over = true;
  await Promise.all(saving);

  t.comment(JSON.stringify(tally(statuses)));
  for (const line of cluster.output().split('\n')) if (line.includes('request failed')) t.comment(line);
  t.same(
    Object.keys(tally(statuses)).filter((word) => !['200', '503 UNAVAILABLE', 'no reply'].includes(word)),
    [],
  );
  t.ok(
    refusals.every(({ headers }) => /^\d+$/.test(headers['retry-after'] ?? '')),
    'every 503 has a Retry-After',
  );
  for (const { id } of crew) {
    const { data } = await readAsTeacher(door(), id);
    t.equal(data.answers.length, QUESTIONS);
    for (const { questionId, serverVersion, answer } of data.answers) {
      const promised = ledger.get(`${id} ${questionId}`);
      t.ok(promised !== undefined && serverVersion >= promised.version, 'the acknowledged version or a later one');
      if (serverVersion === promised?.version) t.equal(answer.textAnswer, promised.text);
    }
  }
});

t.test('submits during an outage of MongoDB are all graded and spend no attempt on the outage', async (t) => {
  const examId = newExamId();
  const crew = await crowd(scaled(16, 100), 4, async (n) => {
    const who = student();
    const id = await started(who, door(n), { examId });
    await retryOn503(() => who.save(door(n), id, { questionId: 'q1', text: '1' }));
    return { who, id };
  });
  let [accepted, refused] = [0, 0];
  const areAccepted = () => accepted === crew.length;
  // More outages than a command has attempts: if each spent one, the command would be dead.
  const outages = MAX_ATTEMPTS + 1;
  async function fail(): Promise<void> {
    for (let outage = 0; outage < outages; outage++) {
      const enough = (crew.length * outage) / outages + chance.below(2);
      await until('submits are accepted', () => accepted >= enough);
      await mongodb?.kill9();
      const seen = refused;
      await until('a submit has met the outage', () => refused > seen || areAccepted());
      await mongodb?.start();
    }
  }
  const failing = fail();
  await crowd(crew.length, 4, async (n) => {
    const sitting = crew[n];
    if (sitting === undefined) return;
    for (;;) {
      const reply = await asked(sitting.who.submit(door(n), sitting.id));
      if (reply !== null && reply.status < 300) {
        accepted += 1;
        return;
      }
      refused += 1;
      await delay(20);
    }
  });
  await failing;
  t.ok(refused > 0, 'submits met the outages');
  await untilSlowly('every attempt is graded', async () => {
    return (await stored.attempts.countDocuments({ examId, status: 'GRADED' })) === crew.length;
  });
  const graded = await stored.attempts.find({ examId }).toArray();
  t.same(tally(graded.map(({ totalScore }) => `${totalScore}`)), { 1: crew.length });
  t.same(tally(graded.map(({ events }) => events.filter(({ type }) => type === 'SUBMIT').length)), { 1: crew.length });
  t.equal(await stored.commands.countDocuments({ status: 'DEAD' }), 0, 'no command is dead');
  const gradings = await stored.commands
    .find({ queue: 'grading', subject: { $in: crew.map(({ id }) => id) } })
    .toArray();
  for (const { _id } of gradings.filter(({ attempts }) => attempts > 1)) {
    for (const line of cluster.output().split('\n')) if (line.includes(_id)) t.comment(line);
  }
  t.same(tally(gradings.map(({ status }) => status)), { DONE: crew.length });
  t.same(tally(gradings.map(({ attempts }) => attempts)), { 1: crew.length }, 'the outages spent no attempt');
});

t.test('a front door is unready while MongoDB is unavailable, stays alive, and recovers by itself', async (t) => {
  await mongodb.kill9();
  await until('unready', async () => (await cluster.request('GET', '/readyz')).status === 503);
  t.equal((await cluster.request('GET', '/healthz')).status, 200);
  const who = student();
  const refused = await who.start(door(), { examId: newExamId() });
  t.match(refused, { status: 503, code: 'UNAVAILABLE', headers: { 'retry-after': /^\d+$/ } });
  await mongodb.start();
  await until('ready', async () => (await cluster.request('GET', '/readyz')).status === 200);
  const id = await started(who, door(), { examId: newExamId() });
  t.match(await retryOn503(() => who.submit(door(), id)), { status: 200 }, 'the workers recover too');
});

const redisDoor = doorsOf(redisCluster);
const redisStored = storedBy(redisCluster);

type Checks = Pick<typeof t, 'same' | 'equal' | 'match' | 'comment'>;

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
  const id = await started(who, redisDoor(), plan);
  let slowestSaveMs = 0;
  for (const [questionId, text] of [
    ['q1', '1'],
    ['q2', '2'],
    ['essay', 'bài văn'],
  ] as const) {
    const began = performance.now();
    const { status } = await retryOn503(() => who.save(redisDoor(), id, { questionId, text }));
    slowestSaveMs = Math.max(slowestSaveMs, performance.now() - began);
    t.equal(status, 200);
  }
  const began = performance.now();
  const submitted = await retryOn503(() => who.submit(redisDoor(), id));
  const submitMs = performance.now() - began;
  t.match(submitted, { status: 200, data: { status: 'GRADED' } }, 'graded within the wait');
  const grade = { sourceEventId: `grade-${id}`, questionId: 'essay', score: 4 };
  t.match(await retryOn503(() => sendHandoff(redisDoor(), id, grade)), { status: 200, data: { applied: true } });
  const released = await retryOn503(() => release(redisDoor(), plan.examId, `release-${id}`));
  t.match(released, { status: 200, data: { updatedAttempts: 1, queuedNotifications: 2 } });
  t.match((await retryOn503(() => who.read(redisDoor(), id))).data, { totalScore: 6, resultVisible: true });
  return { id, slowestSaveMs, submitMs };
}

/** Checks that every command of these attempts has settled, without a spent attempt, and that each notice was delivered once. */
async function checkSettled(t: Checks, sat: readonly Sat[]): Promise<void> {
  const rows = sat.flatMap(({ id }) => [
    `${id}:notification:grade_released`,
    `${id}:notification:grade_released_parent`,
  ]);
  await untilSlowly('the notices arrive', async () => rows.every((id) => redisCluster.neighbours.notices.has(id)));
  t.same(
    tally(rows.map((id) => redisCluster.neighbours.notices.get(id) ?? 0)),
    { 1: rows.length },
    'each notice was delivered once',
  );
  t.equal(await redisStored.commands.countDocuments({ status: 'PENDING', queue: { $ne: 'upkeep' } }), 0);
  t.equal(
    await redisStored.commands.countDocuments({ attempts: { $gt: 1 }, queue: { $ne: 'upkeep' } }),
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
    const { status, redis } = await readiness(redisCluster);
    return status === 200 && redis === 'down';
  });
  await checkSettled(t, await sitAll(t, scaled(4, 60)));
});

t.test('a cluster uses Redis again as soon as it starts', async (t) => {
  await redis.start();
  await until('the front door is connected to Redis', async () => (await readiness(redisCluster)).redis === 'up');
  await checkSettled(t, await sitAll(t, scaled(3, 20)));
});

/** Lets students sit while `disturb` runs again and again, and checks their attempts. Returns how often it ran. */
async function sitWhile(t: Checks, disturb: () => Promise<unknown>): Promise<number> {
  let over = false;
  let times = 0;
  async function disturbing(): Promise<void> {
    for (; !over; times++) await disturb();
  }
  const disturbed = disturbing();
  const sat = await sitAll(t, scaled(4, 60));
  over = true;
  await disturbed;
  await checkSettled(t, sat);
  return times;
}

t.test('a Redis that is emptied continuously loses no command', async (t) => {
  const client = new Redis(redis.url);
  t.teardown(() => client.disconnect());
  const flushes = await sitWhile(t, async () => {
    await client.flushall();
    await client.script('FLUSH');
    await delay(20);
  });
  t.ok(flushes > 1);
});

t.test('a Redis that is killed and restarted repeatedly loses no command', async (t) => {
  const kills = await sitWhile(t, async () => {
    await redis?.kill9();
    await delay(100);
    await redis?.start();
    await delay(200);
  });
  t.ok(kills > 0);
});

t.test('a Redis that hangs delays no request and loses no command', async (t) => {
  await until('the front door is connected to Redis', async () => (await readiness(redisCluster)).redis === 'up');
  redis.freeze();
  t.teardown(() => redis.thaw());
  const sat = await sitAll(t, scaled(4, 60));
  await checkSettled(t, sat);
  redis.thaw();
  await until('the front door is connected to Redis again', async () => (await readiness(redisCluster)).redis === 'up');
  await checkSettled(t, await sitAll(t, 2));
});
