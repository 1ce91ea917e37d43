import t from 'tap';
import { batchOutcomes } from '#infra/mongo/classifier/job-batches.ts';
import { cancelJob, retryJob } from '#infra/mongo/classifier/jobs.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { roundOrder } from '#shared/classifier/commands.ts';
import type { Command } from '#shared/kernel/command.ts';
import { classifierScene, type Data, OWNER, passing } from '#testing/actors/classifier-scene.ts';
import { testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { goodAnswer } from '#testing/models/generation-server.ts';
import { openFakeOwners } from '#testing/neighbours/fake-owners.ts';
import { openFaultReceiver } from '#testing/neighbours/fault-receiver.ts';
import { again, expire } from '#testing/stored/stored-commands.ts';
import { finishedOnce, postJob, questionIds, unlimitedSlots } from '#testing/stored/stored-model-work.ts';
import { faultyMongo } from '#testing/stores/faulty-mongo.ts';
import { gate, until } from '#testing/until.ts';
import { runCommand } from '#workers/run-command.ts';
import { classifierActor } from './actor.ts';

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

t.test('questions that the bank does not return are not sent to the model', async (t) => {
  const { mongo, asked, actor, run, job, stored } = await classifierScene(t);
  const ids = ['a', 'b', 'c', 'd', 'e', 'f', 'g'];
  const known = new Map(['d', 'b'].map((id) => [id, { id, content: 'c' }]));
  const command = await postJob(mongo, { request: { questionIds: ids }, context: { kind: 'LOADED', known } });
  let seen: unknown;
  await run(
    actor((_ids, _signal, task) => {
      seen = (task.data as Data).questions;
      return { items: goodAnswer(['d']).items };
    }),
    command,
  );
  t.strictSame(asked, [['b', 'd']], 'a batch without a known question is not sent');
  t.strictSame(seen, [
    { id: 'b', content: 'c' },
    { id: 'd', content: 'c' },
  ]);
  t.match(await job(command), { status: 'COMPLETED', counts: { succeeded: 1, failed: 6 } });
  t.strictSame(
    (await stored(command)).errors.map(({ questionId, code }) => [questionId, code]),
    ids
      .filter((id) => id !== 'd')
      .map((id) => [id, id === 'b' ? 'AI_PROVIDER_INVALID_RESPONSE' : 'AI_QUESTION_CONTEXT_FAILED']),
  );
});

t.test('prompts contain only ids if no bank is configured', async (t) => {
  const { mongo, actor, run, job } = await classifierScene(t);
  const command = await postJob(mongo, { context: { kind: 'NONE' } });
  const datas: Data[] = [];
  await run(
    actor((_ids, _signal, task) => void datas.push(task.data as Data)),
    command,
  );
  t.match(await job(command), { status: 'COMPLETED' });
  t.ok(datas.length === 2 && datas.every((data) => data.questions === undefined));
});

t.test('a round without questions loads them first, and fails if they cannot be loaded', async (t) => {
  const { mongo, asked, actor, run, job } = await classifierScene(t);
  const bank = await openFaultReceiver(t);
  const env = { QUESTION_BANK_SERVICE_URL: bank.url, INTERNAL_SERVICE_TOKEN: 'token-of-the-bank' };
  const post = async () => {
    const command = await postJob(mongo, { questions: 60, context: { kind: 'NONE' }, maxAttempts: 3 });
    await mongo.db
      .collection<{ _id: string }>('ai_jobs')
      .updateOne({ _id: command.subject }, { $set: { context: 'FAILED' } });
    return command;
  };
  bank.behaviour = { kind: 'answer', status: 500 };
  const failing = await post();
  t.equal(
    await run(
      actor(() => undefined, env),
      failing,
    ),
    'done',
  );
  t.match(await job(failing), { status: 'FAILED', open: false, error: { code: 'AI_QUESTION_CONTEXT_FAILED' } });
  t.equal(
    await run(
      actor(() => undefined),
      await post(),
    ),
    'done',
    'loaded questions need no configured bank',
  );
  t.strictSame(asked, [], 'never with ids only');
});

t.test('an interrupted load is repeated for all questions', async (t) => {
  const { mongo, actor, run, job } = await classifierScene(t);
  const owners = await openFakeOwners(t);
  const ids = questionIds(260);
  for (const id of ids) owners.questions.set(id, { id, content: 'c' });
  const command = await postJob(mongo, { request: { questionIds: ids }, context: { kind: 'NONE' } });
  let chunks = 0;
  const broken = faultyMongo(mongo, { method: 'bulkWrite', how: 'refused', times: 1, when: () => ++chunks === 2 });
  const cut = classifierActor(testWorkerDeps(broken.mongo, owners.env));
  t.equal(await run(cut, command), 'failed');
  t.equal(broken.left(), 0);
  t.match(await job(command), { context: 'NONE' }, 'not before the last of them is there');
  await expire(mongo, command);
  const good = actor((asked, _signal, task) => {
    t.equal((task.data as Data).questions?.length, asked.length);
    return undefined;
  }, owners.env);
  t.equal(await run(good, command), 'done');
  t.match(await job(command), { status: 'COMPLETED', context: 'LOADED', counts: { succeeded: 260 } });
});
