import t from 'tap';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { testKernel, testWorker, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { storeAttempt } from '#testing/stored/stored-attempts.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { until } from '#testing/until.ts';
import { postRecurringCommands } from './worker-process.ts';

/** Each sweep of `upkeep` is a command of its own. This one submits overdue attempts. */
const SWEEP = { queue: 'upkeep', subject: 'attempts' } as const;

t.test('a cluster has one command for each sweep, and the sweep recurs for ever', async (t) => {
  const mongo = await openTestMongo(t);
  const deps = testWorkerDeps(mongo, { UPKEEP_INTERVAL_MS: '10' });
  const actor = makeActor('upkeep', deps);
  await Promise.all(Array.from({ length: 20 }, () => postRecurringCommands(mongo, actor, Date.now())));
  const rows = await mailboxOf(mongo, 'upkeep').find(SWEEP).toArray();
  t.match(rows, [{ status: 'PENDING', attempts: 0, live: true }]);
  t.equal(rows.length, 1, 'twenty processes that start at once write one command');

  const kernels = [testKernel(mongo, { workerId: 'a' }), testKernel(mongo, { workerId: 'b' })];
  const workers = kernels.map((kernel) => testWorker(t, kernel, actor, { pollMs: 10 }));
  const isSubmitted = (id: string) => async () => (await attempts(mongo).findOne({ _id: id }))?.status === 'SUBMITTED';
  for (let round = 0; round < 3; round++) {
    const overdue = await storeAttempt(mongo);
    await until('submitted', isSubmitted(overdue._id));
    const attempt = await attempts(mongo).findOne({ _id: overdue._id });
    t.match(attempt, { submittedBy: 'TIMEOUT', submittedAt: overdue.deadlineAt, durationSeconds: 3_600 });
    t.equal(await mailboxOf(mongo, 'grading').countDocuments({ queue: 'grading', subject: overdue._id }), 1);
  }
  const inTime = await storeAttempt(mongo, { deadlineAt: new Date(Date.now() - 60_000) });
  const turn = async () => (await mailboxOf(mongo, 'upkeep').findOne(SWEEP))?.fence ?? 0;
  const before = await turn();
  await until('swept again', async () => (await turn()) > before + 1);
  t.match(await attempts(mongo).findOne({ _id: inTime._id }), { status: 'IN_PROGRESS' }, 'grace is not over');
  await Promise.all(workers.map((worker) => worker.drain()));
  t.match(await mailboxOf(mongo, 'upkeep').find(SWEEP).toArray(), [{ status: 'PENDING', attempts: 0 }]);
  await postRecurringCommands(mongo, actor, Date.now());
  t.equal(await mailboxOf(mongo, 'upkeep').countDocuments(SWEEP), 1, 'a restart adds none');
});

t.test('a sweep submits all overdue attempts, also more than fit in one chunk', async (t) => {
  const mongo = await openTestMongo(t);
  const actor = makeActor('upkeep', testWorkerDeps(mongo));
  await postRecurringCommands(mongo, actor, Date.now() - 1_000);
  for (let n = 0; n < 120; n++) await storeAttempt(mongo);
  const worker = testWorker(t, testKernel(mongo), actor);
  await worker.poll();
  await worker.idle();
  t.equal(await attempts(mongo).countDocuments({ status: 'SUBMITTED' }), 120);
  t.equal(await mailboxOf(mongo, 'grading').countDocuments({ queue: 'grading' }), 120);
});
