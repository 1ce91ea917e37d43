import t from 'tap';
import { batchOutcomes } from '#infra/mongo/classifier/job-batches.ts';
import { cancelJob, retryJob } from '#infra/mongo/classifier/jobs.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { roundOrder } from '#shared/classifier/commands.ts';
import type { Command } from '#shared/kernel/command.ts';
import { classifierScene, OWNER, passing } from '#testing/actors/classifier-scene.ts';
import { testKernel } from '#testing/actors/test-kernel.ts';
import { again, expire } from '#testing/stored/stored-commands.ts';
import { finishedOnce, postJob, unlimitedSlots } from '#testing/stored/stored-jobs.ts';
import { gate, until } from '#testing/until.ts';
import { runCommand } from '#workers/run-command.ts';

/** Rejects once the signal is aborted, as a call to a provider does. A call may begin when it already is. */
function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    else signal.addEventListener('abort', () => reject(signal.reason));
  });
}

t.test('a cancelled job stops its provider calls and writes nothing more', async (t) => {
  const { mongo, asked, actor, run, job } = await classifierScene(t);
  const command = await postJob(mongo, { questions: 30 });
  const aborted = Promise.withResolvers<void>();
  const hanging = actor(async (_ids, signal) => {
    if (asked.length < 3) return undefined;
    await untilAborted(signal);
    aborted.resolve();
  });
  const running = run(hanging, command);
  await until('two batches are done', async () => (await job(command))?.counts.batchesDone === 2 && asked.length === 3);
  const cancelled = await cancelJob(mongo, command.subject, OWNER);
  if (cancelled.kind !== 'cancelled') throw new Error(cancelled.kind);
  t.equal(await running, 'done');
  t.equal(asked.length, 3);
  t.match(await job(command), { status: 'CANCELLED', revision: cancelled.job.revision, counts: { batchesDone: 2 } });
  t.match(await again(mongo, command), { status: 'DONE', result: { roundIsOver: true } });
  t.equal((await cancelJob(mongo, command.subject, OWNER)).kind, 'finished');
});

t.test('an answer that arrives after a cancel is not stored', async (t) => {
  const { mongo, actor, run, job } = await classifierScene(t);
  const command = await postJob(mongo, { questions: 5 });
  const cancelling = actor(async () => {
    await cancelJob(mongo, command.subject, OWNER);
    return undefined;
  });
  t.equal(await run(cancelling, command), 'done');
  t.match(await job(command), { status: 'CANCELLED', counts: { batchesDone: 0 } });
  t.strictSame(
    (await batchOutcomes(mongo, command.subject)).map(({ outcome }) => outcome),
    [null],
  );
});

t.test('a worker that lost its lease writes nothing, and the next worker runs the whole job', async (t) => {
  const { mongo, asked, actor, run, job } = await classifierScene(t);
  const command = await postJob(mongo, { questions: 5 });
  const paused = gate();
  const late = actor(async () => {
    if (asked.length === 1) await paused.opened;
    return undefined;
  });
  const first = run(late, command, 'paused');
  await until('the worker calls the provider', () => asked.length === 1);
  await expire(mongo, command);
  t.equal(await run(late, command, 'next'), 'done');
  const after = await job(command);
  paused.open();
  t.equal(await first, 'fenced');
  t.strictSame(await job(command), after);
  t.equal(await finishedOnce(mongo, command.subject), 1);
});

t.test('a worker that finds its lease lost aborts the call that it has begun and makes no other', async (t) => {
  const { mongo, asked, actor, run, job } = await classifierScene(t);
  const command = await postJob(mongo, { questions: 15 });
  const overtaken = actor(async (_ids, signal) => {
    if (asked.length > 1) await untilAborted(signal);
    await mailboxOf(mongo, 'classifier').updateOne({ _id: command._id }, { $inc: { fence: 1 } });
    return undefined;
  });
  t.equal(await run(overtaken, command), 'fenced');
  t.ok(asked.length <= 2);
  t.match(await job(command), { counts: { batchesDone: 0 } });
});

t.test('a stop aborts the provider calls and snoozes the job without spending an attempt', async (t) => {
  const { mongo, asked, actor, job } = await classifierScene(t);
  const command = await postJob(mongo, { questions: 15 });
  const hanging = actor((_ids, signal) => untilAborted(signal));
  const kernel = testKernel(mongo);
  const running = runCommand(kernel, hanging, command);
  await until('the worker calls the provider', () => asked.length === 1);
  kernel.halt.abort(new Error('the process ends'));
  t.equal(await running, 'failed');
  t.equal(asked.length, 1);
  t.match(await again(mongo, command), { status: 'PENDING', attempts: 0, lockedUntil: null });
  t.match(await job(command), { open: true, counts: { batchesDone: 0 } });
});

t.test('a restarted job takes no outcome of the earlier round, nor of a worker that still runs it', async (t) => {
  const { mongo, asked, actor, run, job } = await classifierScene(t);
  const command = await postJob(mongo, { questions: 10 });
  const paused = gate();
  const late = actor(async () => {
    if (asked.length === 2) await paused.opened;
    return undefined;
  });
  const first = run(late, command, 'paused');
  await until('one batch is done', () => asked.length === 2);
  await cancelJob(mongo, command.subject, OWNER);
  const retried = await retryJob(mongo, command.subject, OWNER, unlimitedSlots(), (body) =>
    newCommand({ queue: 'classifier', key: 'again', subject: body.jobId, body, maxAttempts: 3, now: Date.now() }),
  );
  if (retried.kind !== 'retried') throw new Error(retried.kind);
  t.match(retried.job, {
    status: 'PENDING',
    open: true,
    round: 2,
    error: null,
    startedAt: null,
    finishedAt: null,
    counts: { succeeded: 0, failed: 0, batchesDone: 0, total: 10 },
    usage: { inputTokens: undefined },
  });
  asked.length = 0;
  const slow = gate();
  const next = (await mailboxOf(mongo, 'classifier').findOne({ _id: retried.command._id })) as Command;
  const second = run(
    actor(() => slow.opened.then(() => undefined)),
    next,
  );
  await until('the next round calls the provider', () => asked.length === 1);
  paused.open();
  t.equal(await first, 'done');
  t.match(await job(command), { status: 'RUNNING', round: 2, counts: { batchesDone: 0, succeeded: 0 } });
  slow.open();
  t.equal(await second, 'done');
  t.equal(asked.length, 2, 'both batches are sent again');
  t.equal(await finishedOnce(mongo, command.subject), 1);
});

t.test('a command of an earlier round neither begins nor snoozes the next round', async (t) => {
  const { mongo, asked, actor, run, job } = await classifierScene(t);
  async function startOver(jobId: string) {
    await cancelJob(mongo, jobId, OWNER);
    const retried = await retryJob(mongo, jobId, OWNER, unlimitedSlots(), (at) =>
      newCommand({ ...roundOrder(at, OWNER.organizationId), maxAttempts: 3, now: Date.now() }),
    );
    if (retried.kind !== 'retried') throw new Error(retried.kind);
    return retried.job;
  }
  const unbegun = await postJob(mongo);
  const begun = await startOver(unbegun.subject);
  t.equal(
    await run(
      actor(() => undefined),
      unbegun,
    ),
    'done',
  );
  t.strictSame(await job(unbegun), begun);
  t.strictSame(asked, []);

  for (const [name, maxAttempts] of [
    ['put back', 2],
    ['given up', 1],
  ] as const) {
    const command = await postJob(mongo, { questions: 5, maxAttempts });
    let after: Awaited<ReturnType<typeof startOver>> | undefined;
    const late = actor(async () => {
      after = await startOver(command.subject);
      throw passing();
    });
    t.equal(await run(late, command), 'done', name);
    t.match(await again(mongo, command), { result: { roundIsOver: true } }, name);
    t.strictSame(await job(command), after, name);
  }
});
