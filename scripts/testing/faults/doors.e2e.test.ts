import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { openChance, scaled } from '#testing/chance.ts';
import { newExamId } from '#testing/clients/attempt-client.ts';
import { exchange, type HttpReply, NoReply, tally } from '#testing/clients/call.ts';
import { doorsOf, type ExamPlan, readAsTeacher, type Student, student } from '#testing/clients/sitting.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { storedBy } from '#testing/stored/stored.ts';
import { until, untilSlowly } from '#testing/until.ts';

const QUESTIONS = 3;
const LANES = 6;
const DOORS = ['web1', 'web2'];
/** How long a draining front door still serves requests. */
const GRACE_MS = 10_000;
/** Age at which a probe is outdated. The rest of the grace is left for pauses between a probe and a request. */
const FRESH_MS = 3_000;

const chance = openChance((line) => t.comment(line));
const cluster = await startCluster(t, {
  doors: 2,
  workers: ['grading'],
  env: { WORKER_POLL_INTERVAL_MS: '250', DRAIN_GRACE_MS: `${GRACE_MS}`, SHUTDOWN_TIMEOUT_MS: '60000' },
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

/** Returns the front door for the nth sending. */
type PickDoor = (n: number) => string | Promise<string>;

/** Repeats a request until its status is not 503. Adds every status and connection error to `seen`. */
async function retryAtNextDoor<Data>(
  seen: string[],
  pick: PickDoor,
  ask: (door: string) => Promise<HttpReply<Data>>,
): Promise<HttpReply<Data>> {
  for (let n = chance.below(2); ; n++) {
    try {
      const reply = await ask(await pick(n));
      seen.push(`${reply.status}`);
      if (reply.status !== 503) return reply;
    } catch (error) {
      if (!(error instanceof NoReply)) throw error;
      const isRefused = /ECONNREFUSED/.test(error.message) || error.metIdleClose;
      seen.push(isRefused ? 'refused' : 'cut');
      if (!isRefused) t.comment(`cut: ${error.message}, ${String(error.cause)}`);
    }
    await delay(10);
  }
}

/** Resolves after a random number of further replies, so that what follows falls into the middle of requests. */
type Traffic = () => Promise<unknown>;

/** Runs whole sittings, one after the other in each lane, until `trouble` has ended. */
async function sitDuring(
  trouble: (traffic: Traffic) => Promise<void>,
  pick: PickDoor = door,
): Promise<{ sat: Sat[]; seen: string[] }> {
  const sat: Sat[] = [];
  const seen: string[] = [];
  let over = false;
  async function lane(): Promise<void> {
    while (!over) {
      const [who, key, plan] = [student(), randomUUID(), { examId: newExamId(), questions: QUESTIONS }];
      const begun = await retryAtNextDoor(seen, pick, (at) => who.start(at, plan, key));
      const { id } = begun.data.attempt;
      for (let n = 1; n <= QUESTIONS; n++) {
        await retryAtNextDoor(seen, pick, (at) => who.save(at, id, { questionId: `q${n}`, text: `${n}` }));
      }
      await retryAtNextDoor(seen, pick, (at) => who.submit(at, id));
      sat.push({ id, key, who, plan });
    }
  }
  async function makeTrouble(): Promise<void> {
    await trouble(() => {
      const enough = seen.length + 1 + chance.below(2 * LANES);
      return until('requests are answered', () => seen.length >= enough);
    });
    over = true;
  }
  await Promise.all([makeTrouble(), ...Array.from({ length: LANES }, lane)]);
  return { sat, seen };
}

/** Checks that every attempt is complete and graded once, and that its start key still returns it. */
async function checkWhole(t: Pick<Tap, 'same' | 'equal' | 'ok'>, sat: readonly Sat[]): Promise<void> {
  await untilSlowly('every attempt is graded', async () => {
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
    'one grading command each',
  );
  for (const { who, plan, key, id } of sat.slice(-5)) {
    const again = await retryAtNextDoor([], door, (at) => who.start(at, plan, key));
    t.same([again.status, again.data.attempt.id, again.data.created], [200, id, false]);
  }
}

type Tap = typeof t;

/**
 * Returns a balancer that sends only to front doors that a recent probe found ready, and waits until one is. When a draining front
 * door closes, connections that the kernel has accepted and the process has not are lost. Only a client that avoids draining front
 * doors never loses one.
 */
function openBalancer(): { pick: PickDoor; isReady(n: number): boolean; close(): void } {
  const latest = DOORS.map(() => ({ sentAt: 0, isReady: false }));
  const probe = async (n: number) => {
    const sentAt = performance.now();
    const answer = await exchange(`${door(n)}/readyz`).catch(() => null);
    if (sentAt > (latest[n]?.sentAt ?? 0)) latest[n] = { sentAt, isReady: answer?.status === 200 };
  };
  const isReady = (n: number) => latest[n]?.isReady === true && performance.now() - (latest[n]?.sentAt ?? 0) < FRESH_MS;
  const probing = setInterval(() => DOORS.forEach((_, n) => void probe(n)), 50);
  return {
    async pick(n) {
      const open = await until('a front door is ready', () => {
        const found = DOORS.map((_, at) => at).filter(isReady);
        return found.length > 0 && found;
      });
      return door(open[n % open.length]);
    },
    isReady,
    close: () => clearInterval(probing),
  };
}

t.test('front doors that are killed during starts, saves and submits leave every attempt complete', async (t) => {
  const { sat, seen } = await sitDuring(async (traffic) => {
    for (let kill = 0; kill < scaled(3, 40); kill++) {
      await traffic();
      await cluster.restart(chance.pick(DOORS), 'SIGKILL');
    }
  });
  const counts = tally(seen);
  t.comment(`${sat.length} sittings:`, JSON.stringify(counts));
  t.ok(sat.length > 0);
  t.ok((counts.cut ?? 0) + (counts.refused ?? 0) > 0, 'the kills were felt');
  await checkWhole(t, sat);
});

t.test('a rolling restart of the front doors under load cuts no reply and loses no data', async (t) => {
  const before = cluster.output().length;
  const codes: (number | null)[] = [];
  const balancer = openBalancer();
  t.teardown(balancer.close);
  const { sat, seen } = await sitDuring(async (traffic) => {
    for (let round = 0; round < scaled(1, 10); round++) {
      for (const [n, name] of DOORS.entries()) {
        await traffic();
        codes.push(await cluster.kill(name, 'SIGTERM'));
        await cluster.start(name);
        await until('the balancer has seen the door', () => balancer.isReady(n));
      }
    }
  }, balancer.pick);
  balancer.close();
  const counts = tally(seen);
  t.comment(`${sat.length} sittings:`, JSON.stringify(counts));
  t.equal(counts.cut ?? 0, 0, 'every accepted request is answered');
  t.same(new Set(codes), new Set([0]), 'each front door exits with code 0');
  t.notMatch(cluster.output().slice(before), /requests or runs aborted|drain failed/);
  await checkWhole(t, sat);
  t.equal((await readAsTeacher(door(), sat[0]?.id ?? '')).status, 200);
});
