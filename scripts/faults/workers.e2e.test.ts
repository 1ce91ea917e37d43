import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { newExamId } from '../../shared/testing/attempt-client.ts';
import { startCluster } from '../../shared/testing/cluster.ts';
import { openChance, scaled } from './chance.ts';
import { tally } from './crowd.ts';
import { patiently } from './patiently.ts';
import { doorsOf, started, student } from './sitting.ts';
import { storedBy } from './stored.ts';

const LEASE_MS = 1_500;
const GRADERS = ['grading', 'grading2'];
const DISPATCHERS = ['gradenotices', 'gradenotices2'];

const chance = openChance((line) => t.comment(line));
const cluster = await startCluster(t, {
  workers: ['grading', 'grading', 'gradenotices', 'gradenotices'],
  env: {
    ...{ WORKER_LEASE_MS: `${LEASE_MS}`, WORKER_POLL_INTERVAL_MS: '250', WORKER_RETRY_BASE_DELAY_MS: '50' },
    ...{ WORKER_MAX_ATTEMPTS: '100', ATTEMPT_OUTBOX_MAX_ATTEMPTS: '100', ATTEMPT_OUTBOX_RETRY_BASE_MS: '50' },
    ATTEMPT_GRADING_WAIT_MS: '200',
  },
});
const { neighbours } = cluster;
const door = doorsOf(cluster);
const stored = storedBy(cluster);

/** Students come and hand in for as long as `trouble` is made, `times` over; resolves when the last one is graded. */
async function handInDuring(times: number, trouble: () => Promise<void>): Promise<string[]> {
  const examId = newExamId();
  const ids: string[] = [];
  let over = false;
  async function makeTrouble(): Promise<void> {
    for (let time = 0; time < times; time++) await trouble();
    over = true;
  }
  async function handIn(): Promise<void> {
    while (!over) {
      const who = student();
      const id = await started(who, door(), { examId, questions: 2 });
      await who.save(door(), id, { questionId: 'q1', text: '1' });
      await who.submit(door(), id);
      ids.push(id);
    }
  }
  await Promise.all([makeTrouble(), ...Array.from({ length: 4 }, handIn)]);
  await patiently('every attempt is graded', async () => {
    return (await stored.attempts.countDocuments({ examId, status: 'GRADED' })) === ids.length;
  });
  return ids;
}

/** What must hold of each attempt, whatever was done to its workers. */
async function checkOnce(t: Pick<Tap, 'same' | 'equal'>, ids: readonly string[]): Promise<void> {
  const attempts = await stored.attempts.find({ _id: { $in: [...ids] } }).toArray();
  t.same(tally(attempts.map(({ status, totalScore }) => `${status} ${totalScore}`)), { 'GRADED 1': ids.length });
  const submits = attempts.map(({ events }) => events.filter(({ type }) => type === 'SUBMIT').length);
  t.same(tally(submits), { 1: ids.length }, 'one SUBMIT each');
  await patiently('every notice is delivered', async () => {
    return (await stored.notices.countDocuments({ status: { $ne: 'DELIVERED' } })) === 0;
  });
  const commands = await stored.commands.find({ subject: { $in: [...ids] } }).toArray();
  t.same(tally(commands.map(({ status }) => status)), { DONE: ids.length }, 'one grading each, and it is done');
  const rows = ids.flatMap((id) => [`${id}:notification:grade_released`, `${id}:notification:grade_released_parent`]);
  t.same(
    rows.filter((id) => !neighbours.notices.has(id)),
    [],
    'no notice is lost',
  );
  t.equal(await stored.notices.countDocuments({ subject: { $in: [...ids] } }), rows.length, 'and none is made twice');
}

type Tap = typeof t;

t.test('workers that are killed again and again lose nothing and double nothing', async (t) => {
  const ids = await handInDuring(scaled(5, 60), async () => {
    await delay(chance.below(200));
    await cluster.restart(chance.pick([...GRADERS, ...DISPATCHERS]), 'SIGKILL');
  });
  await checkOnce(t, ids);
  // A worker killed between the receiver's answer and its own note of it sends again; the receiver tells by the id.
  t.comment(`${ids.length} attempts; deliveries per notice:`, JSON.stringify(tally(neighbours.notices.values())));
});

t.test('workers that are paused past their lease, and wake, double nothing', async (t) => {
  async function pauseOne(from: readonly string[]): Promise<void> {
    const victim = chance.pick(from);
    await cluster.kill(victim, 'SIGSTOP');
    await delay(LEASE_MS * 1.2 + chance.below(300));
    await cluster.kill(victim, 'SIGCONT');
  }
  const ids = await handInDuring(scaled(2, 30), async () => {
    await delay(chance.below(200));
    await Promise.all([pauseOne(GRADERS), pauseOne(DISPATCHERS)]);
  });
  await checkOnce(t, ids);
  const fenced = cluster.output().split('lease lost; nothing written').length - 1;
  t.comment(`${ids.length} attempts; ${fenced} runs found their lease lost`);
});
