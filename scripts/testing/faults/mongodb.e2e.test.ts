import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { openChance, scaled } from '#testing/chance.ts';
import { newExamId } from '#testing/clients/attempt-client.ts';
import { NoReply } from '#testing/clients/call.ts';
import { crowd, retryOn503, tally } from '#testing/clients/crowd.ts';
import type { HttpReply } from '#testing/clients/http-call.ts';
import { doorsOf, readAsTeacher, started, student } from '#testing/clients/sitting.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { storedBy } from '#testing/stored/stored.ts';
import { startThrowAwayServices } from '#testing/stores/throw-away.ts';
import { until, untilSlowly } from '#testing/until.ts';

const QUESTIONS = 4;
const STUDENTS = 6;
const MAX_ATTEMPTS = 2;

const chance = openChance((line) => t.comment(line));
// Durable, as `npm start` runs it: otherwise a killed stand-in may lose acknowledged writes.
const { mongodb, close } = await startThrowAwayServices({ redis: false, durable: true });
t.teardown(close);
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
