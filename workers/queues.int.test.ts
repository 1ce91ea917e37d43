import t from 'tap';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { liveWorkers } from '#infra/mongo/live-workers.ts';
import { DELIVERIES, newCommand } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf, postCommand, readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { gradeNotices } from '#shared/attempt/notices.ts';
import type { Command } from '#shared/kernel/command.ts';
import { coded } from '#shared/kernel/failure.ts';
import { newId } from '#shared/kernel/ids.ts';
import { commandReason } from '#shared/operations/command-reason.ts';
import { testKernel, testWorker, testWorkerDeps, withStep } from '#testing/actors/test-kernel.ts';
import { openFaultReceiver } from '#testing/neighbours/fault-receiver.ts';
import { WEBHOOK_SECRET } from '#testing/neighbours/neighbours.ts';
import { sampleAttempt } from '#testing/stored/sample-attempt.ts';
import { postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { again, expire } from '#testing/stored/stored-commands.ts';
import { postDelivery } from '#testing/stored/stored-notifications.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { gate, until } from '#testing/until.ts';
import { type Actor, queuesOf } from './actor.ts';
import { deliveryActor } from './delivery/actor.ts';
import { startHeartbeat } from './heartbeat.ts';
import { runCommand } from './run-command.ts';
import { postRecurringCommands } from './worker-process.ts';

const mongo = await openTestMongo(t);
const kernel = testKernel(mongo);
const grading = makeActor('grading', testWorkerDeps(mongo));
type NoticeQueue = 'gradenotices:student' | 'gradenotices:parent';
const DONE = { kind: 'done', result: { recipients: 0 } } as const;

/** Posts a notice that is due. */
async function postNotice(mongo: TestMongo, queue: NoticeQueue) {
  const [body] = gradeNotices(sampleAttempt());
  if (body === undefined) throw new Error('an attempt has no notice');
  const about = { queue, key: newId(), subject: 'a test', body, maxAttempts: 10 };
  return (await postCommand(mongo, newCommand({ ...about, now: Date.now() - 1_000 }))).command;
}

t.test('a queue is polled although another queue of its actor has an endless backlog', async (t) => {
  const mongo = await openTestMongo(t);
  const post = (queue: NoticeQueue) => postNotice(mongo, queue);
  let runs = 0;
  const actor: Actor = {
    name: 'two-queues',
    backoff: { baseMs: 1, capMs: 1 },
    handlers: {
      async 'gradenotices:student'() {
        runs += 1;
        // Each run posts another command, so the backlog never shrinks.
        await post('gradenotices:student');
        return DONE;
      },
      async 'gradenotices:parent'() {
        runs += 1;
        return DONE;
      },
    },
  };
  for (let n = 0; n < 10; n++) await post('gradenotices:student');
  testWorker(t, testKernel(mongo), actor, { concurrency: 2, pollMs: 20 });
  await until('the backlog is being worked off', () => runs > 20);
  const other = await post('gradenotices:parent');
  const settled = async () => (await readCommand(mongo, other))?.status === 'DONE';
  await until('the row of the other queue is taken', settled);
  t.pass('without any ring');
});

t.test('hanging commands of one queue take no slot of another queue', async (t) => {
  const mongo = await openTestMongo(t);
  const post = (queue: NoticeQueue) => postNotice(mongo, queue);
  const go = gate();
  let hanging = 0;
  const actor: Actor = {
    name: 'two-queues',
    backoff: { baseMs: 1, capMs: 1 },
    handlers: {
      async 'gradenotices:student'() {
        hanging += 1;
        await go.opened;
        return DONE;
      },
      'gradenotices:parent': async () => DONE,
    },
  };
  for (let n = 0; n < 5; n++) await post('gradenotices:student');
  const worker = testWorker(t, testKernel(mongo), actor, { concurrency: 2, pollMs: 20 });
  t.teardown(go.open);
  await until('the slots of the first queue are in use', () => hanging === 2);
  const [polled, rung] = [await post('gradenotices:parent'), await post('gradenotices:parent')];
  void worker.tryRun(rung);
  for (const command of [rung, polled]) {
    const isDone = async () => (await readCommand(mongo, command))?.status === 'DONE';
    await until('the other queue is worked on, by rings and by the poll', isDone);
  }
  t.equal(hanging, 2, 'the first queue runs no more than its slots');
});

t.test('a hanging receiver delays its own channel and no other', async (t) => {
  const slots = 2;
  const mongo = await openTestMongo(t);
  const receiver = await openFaultReceiver(t);
  receiver.behaviour = { kind: 'hang' };
  const deps = testWorkerDeps(mongo, {
    NOTIFICATION_CHANNELS: 'log,webhook',
    NOTIFICATION_WEBHOOK_URL: receiver.url,
    NOTIFICATION_WEBHOOK_SECRET: WEBHOOK_SECRET,
    NOTIFICATION_WEBHOOK_TIMEOUT_MS: '25000',
  });
  const actor = deliveryActor(deps);
  t.strictSame(queuesOf(actor), ['delivery:log', 'delivery:webhook']);
  const kernel = testKernel(mongo);
  const hanging: Command[] = [];
  for (let n = 0; n < slots * 3; n++) hanging.push(await postDelivery(mongo, { channel: 'webhook' }));
  const worker = testWorker(t, kernel, actor, { concurrency: slots, pollMs: 20 });
  t.teardown(() => kernel.halt.abort(new Error('the test is over')));
  await until('the receiver hangs with all that its channel may hold', () => receiver.posts.length === slots);

  const others: Command[] = [];
  for (let n = 0; n < 5; n++) others.push(await postDelivery(mongo, { channel: 'log' }));
  for (const job of others) {
    await until('delivered beside it', async () => (await again(mongo, job)).status === 'SENT');
  }
  t.equal(receiver.posts.length, slots, 'while it still hangs');
  t.equal(worker.busy().length >= slots, true);
  for (const job of hanging) t.match(await again(mongo, job), { status: 'PENDING' });

  // The receiver recovers. The stop snoozes the hanging jobs without spending an attempt, and a new worker delivers them all.
  kernel.halt.abort(new Error('the process is stopping'));
  await worker.drain();
  receiver.behaviour = { kind: 'answer', status: 204 };
  testWorker(t, testKernel(mongo), actor, { concurrency: slots, pollMs: 20 });
  for (const job of hanging) {
    await until('delivered', async () => (await again(mongo, job)).status === 'SENT');
    t.match(await again(mongo, job), { attempts: 1 });
  }
});

t.test('a worker without channels claims nothing, and jobs posted earlier wait', async (t) => {
  const mongo = await openTestMongo(t);
  const job = await postDelivery(mongo, { channel: 'log' });
  const polled = async (env: NodeJS.ProcessEnv) => {
    const actor = deliveryActor(testWorkerDeps(mongo, env));
    const worker = testWorker(t, testKernel(mongo), actor);
    await worker.poll();
    await worker.idle();
    await worker.drain();
    return again(mongo, job);
  };
  t.strictSame(queuesOf(deliveryActor(testWorkerDeps(mongo))), []);
  t.match(await polled({}), { status: 'PENDING', attempts: 0, fence: 0, workerId: null });
  t.match(await polled({ NOTIFICATION_CHANNELS: 'log' }), { status: 'SENT', attempts: 1 });
  t.equal(await mongo.db.collection(DELIVERIES).countDocuments(), 1);
});

/** Runs a grading that fails with this error. Returns the stored command. */
async function failed(command: Command, error: Error): Promise<Command> {
  await expire(mongo, command);
  await runCommand(
    kernel,
    withStep(grading, () => Promise.reject(error)),
    command,
  );
  return again(mongo, command);
}

/** Returns the reason that a trace states at the time of the failure. */
function reasonOf(command: Command): string | undefined {
  const worker = { _id: 'grading@host:1', actor: 'grading', queues: ['grading'], slots: 5, busy: [] };
  const now = command.lastError?.at.getTime() ?? 0;
  return commandReason(command, { now, workers: [worker], redis: 'up' })?.code;
}

t.test('a failure is stored with its code, and the next one replaces it', async (t) => {
  const command = await postGrading(mongo, await storeAttempt(mongo, SUBMITTED), { maxAttempts: 5 });
  const first = await failed(command, coded('MISCONFIGURED', 'refused'));
  t.match(first.lastError, { code: 'MISCONFIGURED', message: 'refused' });
  t.equal(reasonOf(first), 'MISCONFIGURED');
  const second = await failed(command, new Error('the wallet service answered 402'));
  t.match(second.lastError, { code: null });
  t.equal(reasonOf(second), 'BACKS_OFF', 'the text is not read');
});

t.test('a command whose worker was killed at its last attempt has a code too', async (t) => {
  const command = await postGrading(mongo, await storeAttempt(mongo, SUBMITTED), { maxAttempts: 1 });
  await mailboxOf(mongo, 'grading').updateOne({ _id: command._id }, { $set: { attempts: 1, fence: 1 } });
  await expire(mongo, command);
  t.equal(await runCommand(kernel, grading, command), 'dead');
  const dead = await again(mongo, command);
  t.match(dead.lastError, { code: 'WORKER_KILLED' });
  t.equal(reasonOf(dead), 'WORKER_KILLED');
});

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

t.test('the row of a worker shows whether the process connects to a router, if it knows', async (t) => {
  const mongo = await openTestMongo(t);
  const self = {
    actor: 'grading',
    queues: [],
    version: '1.0.0',
    slots: 8,
    busy: () => [],
    unanswering: () => [],
    heldLoop: () => null,
    ended: () => ({ settled: {}, failed: {}, died: {} }),
  };
  for (const router of [true, false, undefined]) {
    const heart = startHeartbeat(mongo, { ...self, workerId: `w-${router}`, router });
    await until('its row', async () => (await liveWorkers(mongo, Date.now())).length === 1);
    const [row] = await liveWorkers(mongo, Date.now());
    t.strictSame(row?.router, router);
    await heart.stop();
  }
});
