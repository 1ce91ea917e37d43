import t from 'tap';
import { cancelJob } from '#infra/mongo/classifier/jobs.ts';
import { COMMANDS, type CommandOf } from '#infra/mongo/mailbox/commands.ts';
import { replayDead } from '#infra/mongo/mailbox/dead-letters.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { ProviderFailure } from '#shared/classifier/tasks/task.ts';
import type { Command } from '#shared/kernel/command.ts';
import { type ClassifierScene, classifierScene, OWNER, passing, twelve } from '#testing/actors/classifier-scene.ts';
import { testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { goodAnswer } from '#testing/models/generation-server.ts';
import { again, expire } from '#testing/stored/stored-commands.ts';
import { finishedOnce, postJob } from '#testing/stored/stored-model-work.ts';
import { tappedDb } from '#testing/stores/faulty-mongo.ts';
import { gate } from '#testing/until.ts';
import { queuesOf } from '#workers/actor.ts';
import { postRecurringCommands } from '#workers/worker-process.ts';
import { classifierActor } from './actor.ts';

/** Runs a job again once it is due, with a model that answers well. Forgets the calls before. */
async function goesOn({ mongo, asked, actor, run }: ClassifierScene, command: CommandOf<'classifier'>) {
  await expire(mongo, command);
  asked.length = 0;
  const good = actor(() => undefined);
  return run(good, command);
}

t.test('a job calls the model once for each batch of five and stores items in question order', async (t) => {
  const { mongo, asked, actor, run, job, stored, publishedJobs } = await classifierScene(t);
  const command = await postJob(mongo, twelve);
  const slow = gate();
  const good = actor(
    async (ids) => {
      // The first batch answers last.
      if (ids[0]?.startsWith('q-1-')) await slow.opened;
      else if (asked.length === 3) slow.open();
      return undefined;
    },
    { AI_CLASSIFIER_BATCH_CONCURRENCY: '3' },
  );
  t.equal(await run(good, command), 'done');
  // All three batches run at once, so the order in which MongoDB returns their questions is not fixed.
  t.strictSame(asked.map((ids) => ids.length).sort(), [2, 5, 5]);
  t.equal(await finishedOnce(mongo, command.subject), 1);
  const { items, errors } = await stored(command);
  t.strictSame(
    items.map(({ questionId }) => Number(questionId.split('-')[1])),
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
  );
  t.ok(items.every(({ accepted }) => accepted));
  t.strictSame(errors, []);
  t.match(await job(command), {
    status: 'COMPLETED',
    open: false,
    error: null,
    usage: { inputTokens: 30, outputTokens: undefined },
    startedAt: Date,
    finishedAt: Date,
    counts: { total: 12, succeeded: 12, failed: 0, batchesDone: 3 },
  });
  t.ok(publishedJobs.length >= 3 && publishedJobs.every((id) => id === command.subject), 'each change was published');
});

t.test('a batch that the provider refuses for good becomes errors at once, and other batches continue', async (t) => {
  const { mongo, asked, actor, run, job, stored } = await classifierScene(t);
  const refused = new ProviderFailure('AI_PROVIDER_INVALID_RESPONSE', 'refused', { message: 'x'.repeat(2_000) });
  const command = await postJob(mongo, twelve);
  const half = actor((ids) => {
    if (ids[0]?.startsWith('q-6-')) throw refused;
    return ids.length === 2 ? { items: goodAnswer([ids[1] ?? '', 'made-up']).items } : undefined;
  });
  t.equal(await run(half, command), 'done');
  t.equal(asked.length, 3);
  t.match(await job(command), { status: 'COMPLETED', error: null, counts: { succeeded: 6, failed: 6 } });
  const { errors } = await stored(command);
  t.strictSame(
    errors.map(({ batchIndex }) => batchIndex),
    [1, 1, 1, 1, 1, 2],
  );
  t.ok(errors.every(({ code, message }) => code === 'AI_PROVIDER_INVALID_RESPONSE' && message.length <= 500));

  const none = await postJob(mongo, { questions: 7 });
  await run(
    actor(() => {
      throw refused;
    }),
    none,
  );
  t.match(await job(none), { status: 'FAILED', open: false, error: { code: 'AI_PROVIDER_INVALID_RESPONSE' } });
});

t.test('a passing failure makes the job due again; finished batches stay stored and are not sent again', async (t) => {
  const scene = await classifierScene(t);
  const { mongo, asked, actor, run, job } = scene;
  const command = await postJob(mongo, { questions: 15, maxAttempts: 3 });
  const busy = actor((ids) => {
    if (ids[0]?.startsWith('q-6-')) throw passing(90_000);
    return undefined;
  });
  const before = Date.now();
  t.equal(await run(busy, command), 'retried');
  t.equal(asked.length, 2, 'no call follows the failure');
  t.match(await job(command), { status: 'PENDING', open: true, finishedAt: null, counts: { batchesDone: 1 } });
  const resting = await again(mongo, command);
  t.match(resting, { status: 'PENDING', attempts: 1 });
  t.ok(resting.nextRunAt.getTime() - before > 80_000, 'the command waits for the requested time');

  t.equal(await goesOn(scene, command), 'done');
  t.strictSame(
    asked.map((ids) => ids[0]?.split('-')[1]),
    ['11', '6'],
    'the batch that has failed comes last',
  );
  t.equal(await finishedOnce(mongo, command.subject), 1);
});

t.test('a cancellation aborts the calls of a job that was cancelled; without that the run is repeated', async (t) => {
  const { mongo, asked, actor, run, job, cancel } = await classifierScene(t);
  const command = await postJob(mongo, { questions: 15, maxAttempts: 3 });
  const calling = (during: () => Promise<unknown>) =>
    actor(async (_ids, signal) => {
      await during();
      cancel(command.key ?? '');
      signal.throwIfAborted();
    });
  t.equal(
    await run(
      calling(async () => undefined),
      command,
    ),
    'retried',
    'a message without a cancellation',
  );
  t.match(await again(mongo, command), { status: 'PENDING', attempts: 1 });
  await expire(mongo, command);
  asked.length = 0;
  t.equal(
    await run(
      calling(() => cancelJob(mongo, command.subject, OWNER)),
      command,
    ),
    'done',
  );
  t.equal(asked.length, 1, 'no call follows');
  t.match(await again(mongo, command), { status: 'DONE', result: { roundIsOver: true } });
  t.match(await job(command), { status: 'CANCELLED', open: false });
});

t.test('a batch that always fails costs only itself', async (t) => {
  const { mongo, asked, actor, run, job, stored } = await classifierScene(t);
  const command = await postJob(mongo, { questions: 25, maxAttempts: 3 });
  const wrong = actor((ids) => {
    if (['q-6-', 'q-16-'].some((start) => ids[0]?.startsWith(start))) throw passing();
    return undefined;
  });
  const firsts = () => asked.splice(0).map((ids) => Number(ids[0]?.split('-')[1]));
  t.equal(await run(wrong, command), 'retried');
  t.strictSame(firsts(), [1, 6]);
  await expire(mongo, command);
  t.equal(await run(wrong, command), 'retried');
  t.strictSame(firsts(), [11, 16]);
  await expire(mongo, command);
  t.equal(await run(wrong, command), 'done');
  t.strictSame(firsts(), [21, 6, 16], 'the last run asks for each of them');
  t.match(await job(command), { status: 'COMPLETED', counts: { succeeded: 15, failed: 10, batchesDone: 5 } });
  t.strictSame([...new Set((await stored(command)).errors.map(({ batchIndex }) => batchIndex))], [1, 3]);
});

t.test('a run waits for its batches in flight after a passing failure of another batch', async (t) => {
  const { mongo, actor, run, job } = await classifierScene(t);
  const command = await postJob(mongo, { questions: 15 });
  const failed = gate();
  const busy = actor(
    async (ids) => {
      if (ids[0]?.startsWith('q-1-')) {
        failed.open();
        throw passing();
      }
      await failed.opened;
      return undefined;
    },
    { AI_CLASSIFIER_BATCH_CONCURRENCY: '2' },
  );
  t.equal(await run(busy, command), 'retried');
  t.match(await job(command), { status: 'PENDING', counts: { batchesDone: 1, succeeded: 5 } });
});

t.test('a run spends no attempt while the provider circuit is open', async (t) => {
  const { mongo, asked, actor, run, job } = await classifierScene(t);
  const command = await postJob(mongo, { maxAttempts: 1 });
  const open = actor(() => {
    throw new ProviderFailure('AI_PROVIDER_CIRCUIT_OPEN', 'open', { message: 'open', retryAfterMs: 20_000 });
  });
  for (let time = 0; time < 3; time++) {
    t.equal(await run(open, command), 'failed');
    t.match(await again(mongo, command), { status: 'PENDING', attempts: 0 });
    t.match(await job(command), { status: 'PENDING' });
    await expire(mongo, command);
  }
  t.equal(asked.length, 3, 'each run calls the provider once');
});

t.test('in the last run, an open circuit costs only the batches that have failed before it', async (t) => {
  const scene = await classifierScene(t);
  const { mongo, asked, actor, run, job, stored } = scene;
  const command = await postJob(mongo, { questions: 20, maxAttempts: 1 });
  const opening = actor((ids) => {
    if (ids[0]?.startsWith('q-1-')) throw passing();
    if (ids[0]?.startsWith('q-6-')) return undefined;
    throw new ProviderFailure('AI_PROVIDER_CIRCUIT_OPEN', 'open', { message: 'open', retryAfterMs: 20_000 });
  });
  t.equal(await run(opening, command), 'failed');
  t.equal(asked.length, 3, 'no call follows the open circuit');
  t.match(await again(mongo, command), { status: 'PENDING', attempts: 0 });
  t.match(await job(command), {
    status: 'PENDING',
    open: true,
    counts: { succeeded: 5, failed: 5, batchesDone: 2 },
  });

  t.equal(await goesOn(scene, command), 'done');
  t.strictSame(asked.map((ids) => ids[0]?.split('-')[1]).sort(), ['11', '16'], 'only the others are sent again');
  t.match(await job(command), { status: 'COMPLETED', counts: { succeeded: 15, failed: 5, batchesDone: 4 } });
  const { errors } = await stored(command);
  t.strictSame(
    [...new Set(errors.map(({ batchIndex, code }) => `${batchIndex} ${code}`))],
    ['0 AI_PROVIDER_UNAVAILABLE'],
  );
  t.equal(await finishedOnce(mongo, command.subject), 1);
});

t.test('a job ends with its stored outcomes after its last attempt fails', async (t) => {
  const { mongo, actor, run, job, stored } = await classifierScene(t);
  const some = await postJob(mongo, { ...twelve, maxAttempts: 1 });
  const busy = actor((ids) => {
    if (!ids[0]?.startsWith('q-1-')) throw passing();
    return undefined;
  });
  t.equal(await run(busy, some), 'done');
  t.match(await job(some), { status: 'COMPLETED', open: false, error: null, counts: { succeeded: 5, failed: 7 } });
  t.equal(await finishedOnce(mongo, some.subject), 1);
  t.strictSame([...new Set((await stored(some)).errors.map(({ code }) => code))], ['AI_PROVIDER_UNAVAILABLE']);

  const none = await postJob(mongo, { maxAttempts: 2 });
  const down = actor(() => {
    throw passing();
  });
  t.equal(await run(down, none), 'retried');
  await expire(mongo, none);
  t.equal(await run(down, none), 'done');
  t.match(await job(none), { status: 'FAILED', open: false, error: { code: 'AI_PROVIDER_UNAVAILABLE' } });
});

t.test('the classifier actor idles unless it is enabled', async (t) => {
  const { actor } = await classifierScene(t);
  const idle = actor(() => undefined, { AI_CLASSIFIER_WORKER_ENABLED: '0' });
  t.strictSame(queuesOf(idle), []);
  t.equal(idle.recurring, undefined);
  const settings = { AI_CLASSIFIER_WORKER_CONCURRENCY: '7', AI_CLASSIFIER_WORKER_POLL_INTERVAL_MS: '50' };
  const busy = actor(() => undefined, settings);
  t.strictSame(queuesOf(busy), ['classifier']);
  t.match(busy, { concurrency: 7, pollMs: 50, leaseMs: 15_000 });
});

t.test('the sweep ends a job whose command died with its workers, and no other job', async (t) => {
  const { mongo, actor, run, job } = await classifierScene(t);
  const sweeper = actor(() => undefined);
  await postRecurringCommands(mongo, sweeper, Date.now() - 1_000);
  const sweep = (await mailboxOf(mongo, 'classifier').findOne({ key: 'classifier:lost-jobs' })) as Command;
  const [lost, waiting, cancelled] = [
    await postJob(mongo, { maxAttempts: 1 }),
    await postJob(mongo),
    await postJob(mongo),
  ];
  await cancelJob(mongo, cancelled.subject, OWNER);
  await mailboxOf(mongo, 'classifier').updateOne({ _id: lost._id }, { $set: { attempts: 1 } });
  t.equal(await run(sweeper, lost), 'dead', 'dead after the last worker was killed');
  t.equal(await run(sweeper, sweep), 'snoozed');
  t.match(await job(lost), { status: 'FAILED', open: false, error: { code: 'INTERNAL' }, finishedAt: Date });
  t.match(await job(waiting), { status: 'PENDING', open: true });
  t.match(await job(cancelled), { status: 'CANCELLED' });
});

t.test('outcomes stored before the command died count, and open batches become errors', async (t) => {
  const { mongo, actor, run, job, stored, publishedJobs } = await classifierScene(t);
  const command = await postJob(mongo, { ...twelve, maxAttempts: 2 });
  const fails = actor((ids) => {
    if (ids[0]?.startsWith('q-6-')) throw passing();
  });
  t.equal(await run(fails, command), 'retried');
  await mailboxOf(mongo, 'classifier').updateOne({ _id: command._id }, { $set: { attempts: 2 } });
  await expire(mongo, command);
  t.equal(await run(fails, command), 'dead', 'dead after the last worker was killed');
  await postRecurringCommands(mongo, fails, Date.now() - 1_000);
  const sweep = (await mailboxOf(mongo, 'classifier').findOne({ key: 'classifier:lost-jobs' })) as Command;
  publishedJobs.length = 0;
  t.equal(await run(fails, sweep), 'snoozed');
  t.match(await job(command), { status: 'COMPLETED', open: false, error: null, counts: { succeeded: 5, failed: 7 } });
  t.equal(await finishedOnce(mongo, command.subject), 1);
  const { errors } = await stored(command);
  t.strictSame([...new Set(errors.map(({ code }) => code))], ['INTERNAL']);
  t.strictSame(publishedJobs, [command.subject]);
});

t.test('the sweep leaves a job to its worker if an operator replays its command during the sweep', async (t) => {
  const { mongo, actor, run, job } = await classifierScene(t);
  const command = await postJob(mongo, { ...twelve, maxAttempts: 1 });
  await mailboxOf(mongo, 'classifier').updateOne({ _id: command._id }, { $set: { attempts: 1 } });
  const [begun, goOn] = [gate(), gate()];
  const slow = actor(async (ids) => {
    if (!ids[0]?.startsWith('q-6-')) return undefined;
    begun.open();
    await goOn.opened;
    return undefined;
  });
  t.equal(await run(slow, command), 'dead');
  let running: Promise<unknown> | undefined;
  const replayed = tappedDb(mongo, (method, name, collection) => {
    if (name !== 'findOne' || collection !== COMMANDS) return undefined;
    return async (...args) => {
      // Intercept the second of the sweep's two reads of the command, in its transaction. The open batches are read by then.
      const [, options] = args as [unknown, { session?: object }];
      if (options?.session === undefined || running !== undefined) return method(...args);
      const dead = await again(mongo, command);
      t.ok(await replayDead(mongo, dead, { operator: 'op', reason: 'the worker was too small', now: Date.now() }));
      running = run(slow, command);
      await begun.opened;
      return method(...args);
    };
  });
  const sweeper = classifierActor(testWorkerDeps({ ...mongo, db: replayed }));
  await postRecurringCommands(mongo, sweeper, Date.now() - 1_000);
  const sweep = (await mailboxOf(mongo, 'classifier').findOne({ key: 'classifier:lost-jobs' })) as Command;
  t.equal(await run(sweeper, sweep), 'snoozed');
  goOn.open();
  t.equal(await running, 'done');
  t.match(await job(command), { status: 'COMPLETED', counts: { succeeded: 12, failed: 0, batchesDone: 3 } });
  t.equal(await finishedOnce(mongo, command.subject), 1);
});
