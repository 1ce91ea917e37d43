import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { newExamId } from '../../shared/testing/attempt-client.ts';
import { startCluster } from '../../shared/testing/cluster.ts';
import { openChance, scaled } from './chance.ts';
import { tally } from './crowd.ts';
import { type Answered, NoReply } from './exchange.ts';
import { patiently } from './patiently.ts';
import { doorsOf, type ExamPlan, readAsTeacher, type Student, student } from './sitting.ts';
import { storedBy } from './stored.ts';

const QUESTIONS = 3;
const LANES = 6;
const DOORS = ['web1', 'web2'];

const chance = openChance((line) => t.comment(line));
const cluster = await startCluster(t, {
  doors: 2,
  workers: ['grading'],
  env: { WORKER_POLL_INTERVAL_MS: '250', DRAIN_GRACE_MS: '300' },
  neighbours: false,
});
const door = doorsOf(cluster, 2);
const stored = storedBy(cluster);

interface Sat {
  id: string;
  key: string;
  who: Student;
  plan: ExamPlan;
}

/** Sends until there is a reply that means something; counts what the client saw on the way. */
async function insist<Data>(seen: string[], ask: (door: string) => Promise<Answered<Data>>): Promise<Answered<Data>> {
  for (let n = chance.below(2); ; n++) {
    try {
      const reply = await ask(door(n));
      seen.push(`${reply.status}`);
      if (reply.status !== 503) return reply;
    } catch (error) {
      if (!(error instanceof NoReply)) throw error;
      seen.push(/ECONNREFUSED/.test(error.message) || error.metIdleClose ? 'refused' : 'cut');
    }
    await delay(10);
  }
}

/** Whole sittings, one after another in each lane, until `trouble` is over. */
async function sitDuring(trouble: () => Promise<void>): Promise<{ sat: Sat[]; seen: string[] }> {
  const sat: Sat[] = [];
  const seen: string[] = [];
  let over = false;
  async function lane(): Promise<void> {
    while (!over) {
      const [who, key, plan] = [student(), randomUUID(), { examId: newExamId(), questions: QUESTIONS }];
      const begun = await insist(seen, (at) => who.start(at, plan, key));
      const { id } = begun.data.attempt;
      for (let n = 1; n <= QUESTIONS; n++) {
        await insist(seen, (at) => who.save(at, id, { questionId: `q${n}`, text: `${n}` }));
      }
      await insist(seen, (at) => who.submit(at, id));
      sat.push({ id, key, who, plan });
    }
  }
  async function makeTrouble(): Promise<void> {
    await trouble();
    over = true;
  }
  await Promise.all([makeTrouble(), ...Array.from({ length: LANES }, lane)]);
  return { sat, seen };
}

/** No attempt is half there, every one is graded in full, and its key still leads to it. */
async function checkWhole(t: Pick<Tap, 'same' | 'equal' | 'ok'>, sat: readonly Sat[]): Promise<void> {
  await patiently('every attempt is graded', async () => {
    return (await stored.attempts.countDocuments({ status: { $ne: 'GRADED' } })) === 0;
  });
  const attempts = await stored.attempts.find({ _id: { $in: sat.map(({ id }) => id) } }).toArray();
  t.same(tally(attempts.map(({ totalScore }) => `${totalScore}`)), { [QUESTIONS]: sat.length }, 'every answer counts');
  const shape = attempts.map(({ events }) => {
    const count = (type: string) => events.filter((event) => event.type === type).length;
    return `${count('START')} ${count('SUBMIT')}`;
  });
  t.same(tally(shape), { '1 1': sat.length }, 'one START and one SUBMIT each');
  t.equal(await stored.attempts.countDocuments(), await stored.attempts.countDocuments({ eventSeq: { $gte: 1 } }));
  t.equal(
    await stored.attempts.countDocuments(),
    await stored.commands.countDocuments({ queue: 'grading' }),
    'one grading each',
  );
  for (const { who, plan, key, id } of sat.slice(-5)) {
    const again = await who.start(door(chance.below(2)), plan, key);
    t.same([again.status, again.data.attempt.id, again.data.created], [200, id, false]);
  }
}

type Tap = typeof t;

t.test('doors killed in the middle of starts, saves and submits leave nothing half done', async (t) => {
  const { sat, seen } = await sitDuring(async () => {
    for (let kill = 0; kill < scaled(3, 40); kill++) {
      await delay(100 + chance.below(300));
      await cluster.restart(chance.pick(DOORS), 'SIGKILL');
    }
  });
  t.comment(`${sat.length} sittings:`, JSON.stringify(tally(seen)));
  t.ok(sat.length > 0);
  await checkWhole(t, sat);
});

t.test('a rolling restart under load cuts no reply and loses nothing', async (t) => {
  const before = cluster.output().length;
  const codes: (number | null)[] = [];
  const { sat, seen } = await sitDuring(async () => {
    for (let round = 0; round < scaled(1, 10); round++) {
      for (const name of DOORS) {
        await delay(100 + chance.below(200));
        codes.push(await cluster.kill(name, 'SIGTERM'));
        await cluster.start(name);
      }
    }
  });
  const counts = tally(seen);
  t.comment(`${sat.length} sittings:`, JSON.stringify(counts));
  t.equal(counts.cut ?? 0, 0, 'every request that was taken was answered');
  t.same(new Set(codes), new Set([0]), 'each door ended in order');
  t.notMatch(cluster.output().slice(before), /requests were cut off|drain failed/);
  await checkWhole(t, sat);
  t.equal((await readAsTeacher(door(), sat[0]?.id ?? '')).status, 200);
});
