import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { openChance, scaled } from '#testing/chance.ts';
import { newExamId } from '#testing/clients/attempt-client.ts';
import { crowd, retryOn503, tally } from '#testing/clients/call.ts';
import { doorsOf, type Student, started, student } from '#testing/clients/sitting.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { storedBy } from '#testing/stored/stored.ts';
import { until, untilSlowly } from '#testing/until.ts';

const LEASE_MS = 1_500;
const MAX_PAUSES = 60;
const GRADERS = ['grading', 'grading2'];
const DISPATCHERS = ['gradenotices', 'gradenotices2'];
/** A worker with a long lease, which keeps its claims for the whole test, even while it is paused. */
const PATIENT = 'gradenotices3';

const chance = openChance((line) => t.comment(line));
const cluster = await startCluster(t, {
  inside: true,
  apart: [...GRADERS, ...DISPATCHERS, PATIENT],
  workers: ['grading', 'grading', 'gradenotices', 'gradenotices'],
  asleep: ['gradenotices'],
  envOf: { [PATIENT]: { WORKER_LEASE_MS: '300000' } },
  env: {
    WORKER_LEASE_MS: `${LEASE_MS}`,
    WORKER_POLL_INTERVAL_MS: '250',
    WORKER_RETRY_BASE_DELAY_MS: '50',
    WORKER_MAX_ATTEMPTS: '100',
    ATTEMPT_OUTBOX_MAX_ATTEMPTS: '100',
    ATTEMPT_OUTBOX_RETRY_BASE_MS: '50',
    ATTEMPT_GRADING_WAIT_MS: '200',
    OUTBOUND_TIMEOUT_MS: '60000',
  },
});
type Tap = typeof t;
const { neighbours } = cluster;
const door = doorsOf(cluster);
const stored = storedBy(cluster);

/** Runs sittings while `goOn` is true and `trouble` runs repeatedly. Returns the attempts when the last one is graded. */
async function sitExamsDuring(goOn: (time: number) => boolean, trouble: () => Promise<void>): Promise<string[]> {
  const examId = newExamId();
  const ids: string[] = [];
  let over = false;
  async function makeTrouble(): Promise<void> {
    for (let time = 0; goOn(time); time++) await trouble();
    over = true;
  }
  async function sitExams(): Promise<void> {
    while (!over) {
      const who = student();
      const id = await started(who, door(), { examId, questions: 2 });
      await retryOn503(() => who.save(door(), id, { questionId: 'q1', text: '1' }));
      await retryOn503(() => who.submit(door(), id));
      ids.push(id);
    }
  }
  await Promise.all([makeTrouble(), ...Array.from({ length: scaled(2, 4) }, sitExams)]);
  await untilSlowly('every attempt is graded', async () => {
    return (await stored.attempts.countDocuments({ examId, status: 'GRADED' })) === ids.length;
  });
  return ids;
}

/** Checks that each attempt is graded once and that each of its notices exists once and is delivered. */
async function checkOnce(t: Pick<Tap, 'same' | 'equal'>, ids: readonly string[]): Promise<void> {
  const attempts = await stored.attempts.find({ _id: { $in: [...ids] } }).toArray();
  t.same(tally(attempts.map(({ status, totalScore }) => `${status} ${totalScore}`)), { 'GRADED 1': ids.length });
  const submits = attempts.map(({ events }) => events.filter(({ type }) => type === 'SUBMIT').length);
  t.same(tally(submits), { 1: ids.length }, 'one SUBMIT each');
  await untilSlowly('every notice is delivered', async () => {
    return (await stored.notices.countDocuments({ status: { $ne: 'DELIVERED' } })) === 0;
  });
  const commands = await stored.commands.find({ queue: 'grading', subject: { $in: [...ids] } }).toArray();
  t.same(tally(commands.map(({ status }) => status)), { DONE: ids.length }, 'one grading command each, DONE');
  const rows = ids.flatMap((id) => [`${id}:notification:grade_released`, `${id}:notification:grade_released_parent`]);
  t.same(
    rows.filter((id) => !neighbours.notices.has(id)),
    [],
    'no notice is lost',
  );
  t.equal(await stored.notices.countDocuments({ subject: { $in: [...ids] } }), rows.length, 'no notice is duplicated');
}

// web1 waits for a grade much longer than the saves take, even on a slow machine; web2 soon answers 202.
const unmanned = await startCluster(t, {
  inside: true,
  apart: ['grading'],
  doors: 2,
  workers: [],
  asleep: ['grading'],
  envOf: { web1: { ATTEMPT_GRADING_WAIT_MS: '60000' }, web2: { ATTEMPT_GRADING_WAIT_MS: '1000' } },
  neighbours: false,
});

t.test('workers that are killed repeatedly lose no grade or notice and duplicate none', async (t) => {
  const times = scaled(5, 60);
  const ids = await sitExamsDuring(
    (time) => time < times,
    async () => {
      await delay(chance.below(200));
      await cluster.restart(chance.pick([...GRADERS, ...DISPATCHERS]), 'SIGKILL');
    },
  );
  await checkOnce(t, ids);
  // A worker that is killed after the receiver's answer and before its settlement sends again, under the same id.
  t.comment(`${ids.length} attempts; deliveries per notice:`, JSON.stringify(tally(neighbours.notices.values())));
});

t.test('workers that are paused past their lease and resumed duplicate no grade or notice', async (t) => {
  async function pauseOne(from: readonly string[]): Promise<void> {
    const victim = chance.pick(from);
    await cluster.kill(victim, 'SIGSTOP');
    await delay(LEASE_MS * 1.2 + chance.below(300));
    await cluster.kill(victim, 'SIGCONT');
  }
  const fenced = () => cluster.output().split('lease lost; nothing written').length - 1;
  // A pause may meet an idle worker. Continue until one has interrupted a run.
  const goOn = (time: number) => time < scaled(2, 30) || (time < MAX_PAUSES && fenced() === 0);
  const ids = await sitExamsDuring(goOn, async () => {
    await delay(chance.below(200));
    await Promise.all([pauseOne(GRADERS), pauseOne(DISPATCHERS)]);
  });
  await checkOnce(t, ids);
  t.comment(`${ids.length} attempts; ${fenced()} runs lost their lease`);
  t.ok(fenced() > 0, 'at least one run was interrupted');
});

t.test(
  'a worker that is paused before it reads a 500 does not change a notice that another worker has claimed since',
  async (t) => {
    const [first = '', second = ''] = DISPATCHERS;
    await cluster.kill(second, 'SIGTERM');
    const who = student();
    const id = await started(who, door(), { examId: newExamId() });
    const notice = `${id}:notification:grade_released`;
    const row = () => stored.notices.findOne({ _id: notice });
    // The first worker receives a 500 and would write a retry when it resumes. The second worker still holds the notice then.
    let calls = 0;
    neighbours.answer = (call) => {
      if (call.body?.sourceEventId !== notice) return undefined;
      calls += 1;
      void cluster.kill(calls === 1 ? first : PATIENT, 'SIGSTOP');
      return calls === 1 ? { status: 500 } : undefined;
    };
    await retryOn503(() => who.submit(door(), id));
    await until('the first worker is paused with the answer in its socket', () => calls === 1);
    // The second worker may claim the notice, and so be paused, before it logs that it is ready.
    const ready = cluster.start(PATIENT);
    await until('the second worker is paused with its answer', () => calls === 2);
    const held = await row();
    t.match(held, { status: 'PENDING', fence: 2, attempts: 2 });

    const said = cluster.output(first).length;
    await cluster.kill(first, 'SIGCONT');
    await until('the first worker has logged the lost lease', () =>
      cluster.output(first).slice(said).includes('lease lost'),
    );
    t.same(await row(), held, 'the claim of the second worker is unchanged');
    await cluster.kill(PATIENT, 'SIGCONT');
    await ready;
    const delivered = await until('the second worker delivers', () =>
      stored.notices.findOne({ _id: notice, status: 'DELIVERED' }),
    );
    t.equal(delivered.fence, 2);
    t.equal(neighbours.notices.get(notice), 1);
    neighbours.answer = null;
  },
);

const WAITERS = scaled(200, 2_000);
const SAVES = 40;
const unmannedDoor = doorsOf(unmanned);
const hastyDoor = unmanned.door(2).url;
const unmannedStored = storedBy(unmanned);

/** Submits and returns the status of the reply, with its code or the state of the attempt. */
async function submitAt(place: string, who: Student, id: string): Promise<string> {
  const reply = await retryOn503(() => who.submit(place, id));
  return `${reply.status} ${reply.code ?? reply.data.status}`;
}

t.test('many submits that wait for missing grades do not delay the saves of another student', async (t) => {
  const examId = newExamId();
  const crew = await crowd(WAITERS, 16, async () => {
    const who = student();
    return { who, id: await started(who, unmannedDoor(), { examId }) };
  });
  const busy = student();
  const writing = await started(busy, unmannedDoor(), { examId: newExamId() });

  let answered = 0;
  const waiting = crew.map(async ({ who, id }) => {
    const end = await submitAt(unmannedDoor(), who, id);
    answered += 1;
    return end;
  });
  await untilSlowly('all students have submitted', async () => {
    return (await unmannedStored.attempts.countDocuments({ examId, status: 'SUBMITTED' })) === WAITERS;
  });
  const before = answered;
  const saves = await crowd(SAVES, 2, (n) =>
    retryOn503(() => busy.save(unmannedDoor(), writing, { questionId: 'q1', text: `${n}` })),
  );
  t.same(tally(saves.map(({ status }) => status)), { 200: SAVES });
  t.comment(`${before} of ${WAITERS} were answered before the saves, ${answered} after them`);
  t.ok(answered < WAITERS, 'the saves end before all submits are answered');
  const hasty = crew.map(({ who, id }) => submitAt(hastyDoor, who, id));
  t.same(tally(await Promise.all(hasty)), { '202 SUBMITTED': WAITERS }, 'the wait is bounded');

  await unmanned.start('grading');
  // A submit whose own wait ended before the grade is answered 202.
  const ends = (await Promise.all(waiting)).filter((end) => end !== '202 SUBMITTED');
  t.same(tally(ends), ends.length === 0 ? {} : { '200 GRADED': ends.length });
  await untilSlowly('every attempt is graded', async () => {
    return (await unmannedStored.attempts.countDocuments({ examId, status: 'GRADED' })) === WAITERS;
  });
  t.equal(await unmannedStored.commands.countDocuments({ queue: 'grading', status: 'DONE' }), WAITERS);
});

t.test('a submit whose client hangs up while it waits is still graded', async (t) => {
  await unmanned.kill('grading');
  const who = student();
  const id = await started(who, unmannedDoor(), { examId: newExamId() });
  const hungUp = new AbortController();
  const sent = fetch(`${unmannedDoor()}/v1/attempts/${id}/submit`, {
    method: 'POST',
    headers: { 'x-user-id': who.id, 'x-user-role': 'STUDENT', 'content-type': 'application/json' },
    body: '{}',
    signal: hungUp.signal,
  });
  await untilSlowly('the attempt is submitted', async () => {
    return (await unmannedStored.attempts.countDocuments({ _id: id, status: 'SUBMITTED' })) === 1;
  });
  hungUp.abort();
  await t.rejects(sent);
  await unmanned.start('grading');
  await untilSlowly(
    'the attempt is graded',
    async () => (await unmannedStored.attempts.countDocuments({ _id: id, status: 'GRADED' })) === 1,
  );
});
