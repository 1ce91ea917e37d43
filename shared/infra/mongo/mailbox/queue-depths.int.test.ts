import t from 'tap';
import { liveWorkers, WORKERS, type WorkerRow } from '#infra/mongo/live-workers.ts';
import { gradeNotices } from '#shared/attempt/notices.ts';
import { HOUR, MINUTE } from '#shared/kernel/time.ts';
import { testKernel, testWorkerDeps, withStep } from '#testing/actors/test-kernel.ts';
import { sampleAttempt } from '#testing/stored/sample-attempt.ts';
import { postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { again, expire, makeSuspect, workerRow } from '#testing/stored/stored-commands.ts';
import { OPERATOR, postNotices, refusedRun, retried, runAs } from '#testing/stored/stored-dead-letters.ts';
import { postJob } from '#testing/stored/stored-model-work.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { until } from '#testing/until.ts';
import { runCommand } from '#workers/run-command.ts';
import { postRecurringCommands } from '#workers/worker-process.ts';
import { claimCommand } from './claim.ts';
import { newCommand } from './commands.ts';
import { replayDead } from './dead-letters.ts';
import { failingCommands } from './failing.ts';
import { mailboxOf, postCommand } from './mailbox.ts';
import { queueDepths } from './queue-depths.ts';
import { takeSlot } from './suspects.ts';

async function depthOf(mongo: TestMongo, queue: string, live: readonly WorkerRow[] = []) {
  const found = (await queueDepths(mongo, Date.now(), live)).find((depth) => depth.queue === queue);
  if (found === undefined) throw new Error(`nothing is told of ${queue}`);
  return found;
}

const post = async (mongo: TestMongo, runAt = Date.now() - MINUTE) =>
  postGrading(mongo, await storeAttempt(mongo, SUBMITTED), { runAt });

function rowOf(actor: string, queues: string[], seenAt = new Date()): WorkerRow {
  return workerRow(actor, { _id: `${actor}-${seenAt.getTime()}-${queues}`, queues, seenAt });
}

t.test('queue depths count a leased command as running, and as due once its lease has expired', async (t) => {
  const mongo = await openTestMongo(t);
  const empty = { waiting: 0, due: 0, running: 0, dead: 0, oldestDueMs: null };
  t.match(await depthOf(mongo, 'grading'), empty);
  await post(mongo, Date.now() + MINUTE);
  await post(mongo);
  const held = await post(mongo, Date.now() - 5 * MINUTE);
  const hangs = withStep(makeActor('grading', testWorkerDeps(mongo)), () => new Promise<never>(() => undefined));
  void runCommand(testKernel(mongo), hangs, held);
  await until('the command is claimed', async () => (await depthOf(mongo, 'grading')).running === 1);
  const running = await depthOf(mongo, 'grading');
  t.match(running, { waiting: 2, due: 1, running: 1 });
  t.ok(
    (running.oldestDueMs ?? 0) >= MINUTE && (running.oldestDueMs ?? 0) < 5 * MINUTE,
    'the leased one is not the oldest',
  );

  // The worker is killed: no renewal comes, the lease expires, and no other worker claims the command.
  await expire(mongo, held);
  t.match(await depthOf(mongo, 'grading'), { waiting: 3, due: 2, running: 0, oldestDueMs: Number });

  await mailboxOf(mongo, 'grading').updateOne({ _id: held._id }, { $set: { status: 'DEAD', settledAt: new Date() } });
  t.match(await depthOf(mongo, 'grading'), { waiting: 2, due: 1, running: 0, dead: 1 });
  t.match(await depthOf(mongo, 'essayhandoff'), empty, 'each queue by itself');
});

t.test('a suspect waits without being due, and a dead letter that died alone is named', async (t) => {
  const mongo = await openTestMongo(t);
  const [held, poison] = [await makeSuspect(mongo, await post(mongo)), await makeSuspect(mongo, await post(mongo))];
  const until = await takeSlot(mongo, poison, { workerId: 'alone', ms: MINUTE });
  if (until === null) throw new Error('the slot is taken');
  await claimCommand(mongo, poison, { workerId: 'alone', leaseMs: MINUTE, aloneUntil: until });
  t.match(await depthOf(mongo, 'grading'), { waiting: 1, due: 0, running: 1, oldestDueMs: null, poisoned: null });
  const { suspects } = await depthOf(mongo, 'grading');
  t.strictSame(
    new Map(suspects.map(({ _id, aloneUntil }) => [_id, aloneUntil])),
    new Map([
      [held._id, null],
      [poison._id, until],
    ]),
  );
  await expire(mongo, poison);
  await claimCommand(mongo, poison, { workerId: 'next', leaseMs: MINUTE });
  t.match(await depthOf(mongo, 'grading'), {
    suspects: [{ _id: held._id }],
    poisoned: { count: 1, newest: poison._id },
  });
  t.match(await depthOf(mongo, 'essayhandoff'), { suspects: [], poisoned: null });
});

t.test('queue depths count at most up to the limit', async (t) => {
  const mongo = await openTestMongo(t);
  const [past, ahead, limit] = [Date.now() - MINUTE, Date.now() + MINUTE, 5];
  for (const runAt of [past, ahead]) for (let n = 0; n < limit + 2; n++) await post(mongo, runAt);
  const [depth] = (await queueDepths(mongo, Date.now(), [], limit)).filter(({ queue }) => queue === 'grading');
  t.match(depth, { due: limit, waiting: 2 * limit, running: 0, oldestDueMs: Number });
  await mailboxOf(mongo, 'grading').updateMany({}, { $set: { status: 'DEAD', settledAt: new Date() } });
  const [dead] = (await queueDepths(mongo, Date.now(), [], limit)).filter(({ queue }) => queue === 'grading');
  t.match(dead, { due: 0, waiting: 0, dead: limit, oldestDueMs: null });
});

t.test('a queue that its running actor does not serve has nothing due', async (t) => {
  const mongo = await openTestMongo(t);
  const about = { queue: 'gradenotices:parent', key: 'k', subject: 's', maxAttempts: 1 } as const;
  const [, notice] = gradeNotices(sampleAttempt());
  if (notice === undefined) throw new Error('an attempt has no notice for its parents');
  await postCommand(mongo, newCommand({ ...about, body: notice, now: Date.now() - MINUTE }));
  const seen = async (...live: WorkerRow[]) => depthOf(mongo, about.queue, live);
  const alarming = { waiting: 1, unserved: 0, due: 1, oldestDueMs: Number };
  const [student, both] = [
    rowOf('gradenotices', ['gradenotices:student']),
    rowOf('gradenotices', ['gradenotices:student', about.queue]),
  ];
  t.match(
    await seen(student),
    { waiting: 1, unserved: 1, due: 0, oldestDueMs: null },
    'the neighbour of the queue is not configured',
  );
  t.match(await seen(student, both), alarming, 'one process claims it');
  t.match(await seen(), alarming, 'no worker of the actor runs');
  t.match(await seen(rowOf('grading', ['grading'])), alarming, 'only another actor runs');
});

t.test('a sweep does not count as waiting for a setting', async (t) => {
  const mongo = await openTestMongo(t);
  const kernel = testWorkerDeps(mongo, { AI_CLASSIFIER_WORKER_ENABLED: '1' });
  await postRecurringCommands(mongo, makeActor('classifier', kernel), Date.now());
  const off = rowOf('classifier', []);
  t.match(await depthOf(mongo, 'classifier', [off]), { waiting: 1, unserved: 0 });
  await postJob(mongo);
  t.match(await depthOf(mongo, 'classifier', [off]), { waiting: 2, unserved: 1, due: 0 });
});

t.test('a worker counts as alive while its row is fresh', async (t) => {
  const mongo = await openTestMongo(t);
  const rows = mongo.db.collection<WorkerRow>(WORKERS);
  const now = Date.now();
  await rows.insertMany([
    rowOf('upkeep', ['upkeep'], new Date(now - 19_000)),
    rowOf('grading', ['grading'], new Date(now)),
    rowOf('grading', ['grading'], new Date(now - 21_000)),
  ]);
  t.strictSame(
    (await liveWorkers(mongo, now)).map(({ actor, seenAt }) => [actor, now - seenAt.getTime()]),
    [
      ['grading', 0],
      ['upkeep', 19_000],
    ],
  );
});

t.test('a refusal ends with the next run that is taken, and begins anew with another status', async (t) => {
  const mongo = await openTestMongo(t);
  const [student] = await postNotices(mongo);
  const since = async () => (await again(mongo, student)).lastError?.refusal?.since;
  await runAs(mongo, student, refusedRun('notification', 401));
  const first = await since();
  t.type(first, Date);
  await expire(mongo, student);
  await runAs(mongo, student, refusedRun('notification', 401));
  t.strictSame(await since(), first, 'a repeat keeps the time of the first');
  await expire(mongo, student);
  await runAs(mongo, student, { kind: 'retry', error: new Error('the notification service answered 503') });
  t.match(await again(mongo, student), { lastError: { refusal: null }, failing: true });
  const { failingSince } = await again(mongo, student);
  t.ok(Number(failingSince) <= Number(first), 'the row of failures goes on');
  await expire(mongo, student);
  await runAs(mongo, student, refusedRun('notification', 401));
  t.ok(Number(await since()) > Number(first));
  await expire(mongo, student);
  await runAs(mongo, student, { kind: 'done', as: 'DELIVERED', result: { recipients: 1 } });
  const delivered = await again(mongo, student);
  t.match(delivered, { status: 'DELIVERED' });
  t.notOk('failing' in delivered || 'failingSince' in delivered);
});

t.test('a replayed dead letter begins a new row of failures', async (t) => {
  const mongo = await openTestMongo(t);
  const command = await postGrading(mongo, await storeAttempt(mongo, SUBMITTED), { maxAttempts: 2 });
  await runAs(mongo, command, retried());
  await mailboxOf(mongo, 'grading').updateOne(
    { _id: command._id },
    { $set: { failingSince: new Date(Date.now() - HOUR) } },
  );
  await expire(mongo, command);
  await runAs(mongo, command, retried());
  const dead = await again(mongo, command);
  t.match(dead, { status: 'DEAD', failing: true });
  t.ok(await replayDead(mongo, dead, { ...OPERATOR, now: Date.now() }));
  const replayed = await again(mongo, command);
  t.notOk('failing' in replayed || 'failingSince' in replayed);
  await runAs(mongo, command, retried({ afterMs: HOUR }));
  const failing = await failingCommands(mongo, 'grading', { now: Date.now() + 5 * MINUTE, limit: 10 });
  t.match(failing, [{ count: 1, heldBack: null }]);
});

t.test('failing commands are counted by their cause, and at most up to the limit', async (t) => {
  const mongo = await openTestMongo(t);
  const outcomes = [
    refusedRun('usage', 401),
    refusedRun('usage', 401),
    refusedRun('wallet', 403),
    retried(),
    retried(),
  ];
  for (const outcome of outcomes)
    await runAs(mongo, await postGrading(mongo, await storeAttempt(mongo, SUBMITTED)), outcome);
  const read = async (limit: number, now: number) =>
    (await failingCommands(mongo, 'grading', { now, limit }))
      .map(({ refusal, count, heldBack }) => [refusal?.service, refusal?.status, count, heldBack?.count])
      .sort();
  t.strictSame(await read(10, Date.now()), [
    [undefined, undefined, 2, undefined],
    ['usage', 401, 2, undefined],
    ['wallet', 403, 1, undefined],
  ]);
  const counted = await read(3, Date.now() + HOUR);
  t.equal(
    counted.reduce((sum, [, , count]) => sum + Number(count), 0),
    3,
  );
  t.strictSame(
    counted.map(([, , count, held]) => count === held),
    counted.map(() => true),
  );
});

t.test('a command is held back while it backs off or its worker was lost, and not while it runs', async (t) => {
  const mongo = await openTestMongo(t);
  const command = await postGrading(mongo, await storeAttempt(mongo, SUBMITTED));
  await runAs(mongo, command, retried());
  const heldAt = async (ms: number) => {
    const [one] = await failingCommands(mongo, 'grading', { now: Date.now() + ms, limit: 10 });
    return one?.heldBack?.count ?? 0;
  };
  t.equal(await heldAt(9 * MINUTE), 0);
  t.equal(await heldAt(11 * MINUTE), 1);
  await expire(mongo, command);
  await claimCommand(mongo, command, { workerId: 'w', leaseMs: 15 * MINUTE });
  t.equal(await heldAt(11 * MINUTE), 0, 'it runs');
  t.equal(await heldAt(16 * MINUTE), 1, 'its worker is lost');
});
