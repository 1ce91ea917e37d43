import t, { type Test } from 'tap';
import type { JobBody } from '../../shared/classifier/job.ts';
import { broughtBy } from '../../shared/classifier/job-view.ts';
import { type ModelAnswer, type Models, type ModelTask, ProviderFailure } from '../../shared/classifier/model-task.ts';
import { cancelJob } from '../../shared/infra/mongo/classifier/cancel-job.ts';
import { findJob } from '../../shared/infra/mongo/classifier/find-job.ts';
import { batchOutcomes } from '../../shared/infra/mongo/classifier/job-batches.ts';
import { retryJob } from '../../shared/infra/mongo/classifier/retry-job.ts';
import { mailboxOf } from '../../shared/infra/mongo/mailbox/mailbox.ts';
import { newCommand } from '../../shared/infra/mongo/mailbox/post-command.ts';
import type { Command } from '../../shared/kernel/command.ts';
import { openFaultReceiver } from '../../shared/testing/fault-receiver.ts';
import { again, expire } from '../../shared/testing/kernel-features/feature.ts';
import { openTestMongo, type TestMongo } from '../../shared/testing/open-test-mongo.ts';
import { finishedOnce, postJob, type StoredJobOptions } from '../../shared/testing/stored-jobs.ts';
import { testKernel, testWorkerDeps } from '../../shared/testing/test-kernel.ts';
import { gate, until } from '../../shared/testing/until.ts';
import type { Ending } from '../kernel.ts';
import { runCommand } from '../run-command.ts';
import { postStandingCommands } from '../standing-commands.ts';
import { classifierActor } from './actor.ts';

const OWNER = { actorId: 'teacher-1', organizationId: 'org-1' };

interface Data {
  questionIds: string[];
  questions?: { id: string }[];
}
type Ask = (ids: string[], signal: AbortSignal, task: ModelTask) => unknown;

/** What a scripted model was asked, batch by batch. */
interface Scene {
  mongo: TestMongo;
  asked: string[][];
  /** An actor whose model answers so; what it gives is the answer, `undefined` a good one. */
  actor(ask: Ask, env?: NodeJS.ProcessEnv): ReturnType<typeof classifierActor>;
  run(actor: ReturnType<typeof classifierActor>, command: Command, workerId?: string): Promise<Ending>;
  job(command: Command<JobBody>): ReturnType<typeof findJob>;
  brought(command: Command<JobBody>): Promise<ReturnType<typeof broughtBy>>;
  told: string[];
}

async function setUp(t: Test): Promise<Scene> {
  const mongo = await openTestMongo(t);
  const asked: string[][] = [];
  const told: string[] = [];
  return {
    mongo,
    asked,
    told,
    actor(ask, env = {}) {
      const deps = { ...testWorkerDeps(mongo, env), tellJob: (id: string) => void told.push(id) };
      const models: Models = {
        async ask(task, about, signal) {
          const { questionIds } = task.data as Data;
          asked.push(questionIds);
          t.match(about, { operation: 'question-classification', ...OWNER, batchIndex: Number });
          const json = (await ask(questionIds, signal, task)) ?? goodAnswer(questionIds);
          return { json, usage: { inputTokens: 10, outputTokens: null }, provider: 'p', model: 'm' } as ModelAnswer;
        },
      };
      return classifierActor(deps, () => models);
    },
    run: (actor, command, workerId = 'worker-1') =>
      runCommand(testKernel(mongo, { workerId }), actor, command.queue, command._id),
    job: ({ body }) => findJob(mongo, body.jobId),
    brought: async ({ body }) => broughtBy(body.round, await batchOutcomes(mongo, body.jobId)),
  };
}

function goodAnswer(ids: readonly string[]) {
  const sure = (value: string) => ({ value, confidence: 0.9 });
  return {
    items: ids.map((questionId) => ({ questionId, suggestions: { topic: sure('t'), difficulty: sure('EASY') } })),
  };
}

function passing(retryAfterMs: number | null = null) {
  return new ProviderFailure('AI_PROVIDER_UNAVAILABLE', 'passing', { message: 'busy', retryAfterMs });
}

const twelve: StoredJobOptions = { questions: 12 };

t.test('batches of five, each asked once; the result in the order of the questions', async (t) => {
  const { mongo, asked, actor, run, job, brought, told } = await setUp(t);
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
  t.strictSame(
    asked.map((ids) => ids.length),
    [5, 5, 2],
  );
  t.equal(await finishedOnce(mongo, command.subject), 1);
  const { items, errors } = await brought(command);
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
  t.ok(told.length >= 3 && told.every((id) => id === command.subject), 'streams were told');
});

t.test('what the provider refuses for good leaves errors at once, and the rest goes on', async (t) => {
  const { mongo, asked, actor, run, job, brought } = await setUp(t);
  const refused = new ProviderFailure('AI_PROVIDER_INVALID_RESPONSE', 'refused', { message: 'x'.repeat(2_000) });
  const command = await postJob(mongo, twelve);
  const half = actor((ids) => {
    if (ids[0]?.startsWith('q-6-')) throw refused;
    return ids.length === 2 ? { items: goodAnswer([ids[1] ?? '', 'made-up']).items } : undefined;
  });
  t.equal(await run(half, command), 'done');
  t.equal(asked.length, 3);
  t.match(await job(command), { status: 'COMPLETED', error: null, counts: { succeeded: 6, failed: 6 } });
  const { errors } = await brought(command);
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

t.test('a passing failure puts the job back; what was finished is kept and not asked for again', async (t) => {
  const { mongo, asked, actor, run, job } = await setUp(t);
  const command = await postJob(mongo, { questions: 15, maxAttempts: 3 });
  const busy = actor((ids) => {
    if (ids[0]?.startsWith('q-6-')) throw passing(90_000);
    return undefined;
  });
  const before = Date.now();
  t.equal(await run(busy, command), 'retried');
  t.equal(asked.length, 2, 'nobody is asked after the failure');
  t.match(await job(command), { status: 'PENDING', open: true, finishedAt: null, counts: { batchesDone: 1 } });
  const resting = await again(mongo, command);
  t.match(resting, { status: 'PENDING', attempts: 1 });
  t.ok(resting.nextRunAt.getTime() - before > 80_000, 'it rests for as long as was asked');

  await expire(mongo, command);
  asked.length = 0;
  t.equal(
    await run(
      actor(() => undefined),
      command,
    ),
    'done',
  );
  t.strictSame(
    asked.map((ids) => ids[0]?.split('-')[1]),
    ['6', '11'],
  );
  t.equal(await finishedOnce(mongo, command.subject), 1);
});

t.test('batches in flight are waited for when another one fails in passing', async (t) => {
  const { mongo, actor, run, job } = await setUp(t);
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

t.test('a provider that is left alone costs no attempt', async (t) => {
  const { mongo, asked, actor, run, job } = await setUp(t);
  const command = await postJob(mongo, { maxAttempts: 1 });
  const open = actor(() => {
    throw new ProviderFailure('AI_PROVIDER_CIRCUIT_OPEN', 'open', { message: 'open', retryAfterMs: 20_000 });
  });
  for (let time = 0; time < 3; time++) {
    t.equal(await run(open, command), 'snoozed');
    t.match(await again(mongo, command), { status: 'PENDING', attempts: 0 });
    t.match(await job(command), { status: 'PENDING' });
    await expire(mongo, command);
  }
  t.equal(asked.length, 3, 'one look each time');
});

t.test('after the last attempt a job ends with what it has', async (t) => {
  const { mongo, actor, run, job, brought } = await setUp(t);
  const some = await postJob(mongo, { ...twelve, maxAttempts: 1 });
  const busy = actor((ids) => {
    if (!ids[0]?.startsWith('q-1-')) throw passing();
    return undefined;
  });
  t.equal(await run(busy, some), 'done');
  t.match(await job(some), { status: 'COMPLETED', open: false, error: null, counts: { succeeded: 5, failed: 7 } });
  t.equal(await finishedOnce(mongo, some.subject), 1);
  t.strictSame([...new Set((await brought(some)).errors.map(({ code }) => code))], ['AI_PROVIDER_UNAVAILABLE']);

  const none = await postJob(mongo, { maxAttempts: 2 });
  const down = actor(() => {
    throw passing();
  });
  t.equal(await run(down, none), 'retried');
  await expire(mongo, none);
  t.equal(await run(down, none), 'done');
  t.match(await job(none), { status: 'FAILED', open: false, error: { code: 'AI_PROVIDER_UNAVAILABLE' } });
});

t.test('a cancelled job stops calling, and nothing is written any more', async (t) => {
  const { mongo, asked, actor, run, job } = await setUp(t);
  const command = await postJob(mongo, { questions: 30 });
  const aborted = Promise.withResolvers<void>();
  const hanging = actor(async (_ids, signal) => {
    if (asked.length < 3) return undefined;
    await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    aborted.resolve();
  });
  const running = run(hanging, command);
  await until('two batches are done', async () => (await job(command))?.counts.batchesDone === 2 && asked.length === 3);
  const cancelled = await cancelJob(mongo, command.subject, OWNER);
  t.equal(cancelled?.cancelled, true);
  t.equal(await running, 'done');
  t.equal(asked.length, 3);
  t.match(await job(command), { status: 'CANCELLED', revision: cancelled?.job.revision, counts: { batchesDone: 2 } });
  t.match(await again(mongo, command), { status: 'DONE', result: { roundIsOver: true } });
  t.equal((await cancelJob(mongo, command.subject, OWNER))?.cancelled, false);
});

t.test('a cancel that comes before an answer is written refuses it', async (t) => {
  const { mongo, actor, run, job } = await setUp(t);
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

t.test('a worker that lost its lease writes nothing: the next one does it all', async (t) => {
  const { mongo, asked, actor, run, job } = await setUp(t);
  const command = await postJob(mongo, { questions: 5 });
  const paused = gate();
  const late = actor(async () => {
    if (asked.length === 1) await paused.opened;
    return undefined;
  });
  const first = run(late, command, 'paused');
  await until('it asks', () => asked.length === 1);
  await expire(mongo, command);
  t.equal(await run(late, command, 'next'), 'done');
  const after = await job(command);
  paused.open();
  t.equal(await first, 'fenced');
  t.strictSame(await job(command), after);
  t.equal(await finishedOnce(mongo, command.subject), 1);
});

t.test('started over, a job takes nothing from the round before, nor from a worker that is still at it', async (t) => {
  const { mongo, asked, actor, run, job } = await setUp(t);
  const command = await postJob(mongo, { questions: 10 });
  const paused = gate();
  const late = actor(async () => {
    if (asked.length === 2) await paused.opened;
    return undefined;
  });
  const first = run(late, command, 'paused');
  await until('one batch is done', () => asked.length === 2);
  await cancelJob(mongo, command.subject, OWNER);
  const retried = await retryJob(mongo, command.subject, OWNER, (body) =>
    newCommand({ queue: 'classifier', key: 'again', subject: body.jobId, body, maxAttempts: 3, now: Date.now() }),
  );
  if (typeof retried === 'string') throw new Error(retried);
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
  const next = (await mailboxOf(mongo, 'classifier').findOne({ _id: retried.commandId })) as Command;
  const second = run(
    actor(() => slow.opened.then(() => undefined)),
    next,
  );
  await until('the next round asks', () => asked.length === 1);
  paused.open();
  t.equal(await first, 'done');
  t.match(await job(command), { status: 'RUNNING', round: 2, counts: { batchesDone: 0, succeeded: 0 } });
  slow.open();
  t.equal(await second, 'done');
  t.equal(asked.length, 2, 'both batches are asked for again');
  t.equal(await finishedOnce(mongo, command.subject), 1);
});

t.test('questions that the bank does not give are not asked about', async (t) => {
  const { mongo, asked, actor, run, job, brought } = await setUp(t);
  const ids = ['a', 'b', 'c', 'd', 'e', 'f', 'g'];
  const known = new Map(['d', 'b'].map((id) => [id, { id, content: 'c' }]));
  const command = await postJob(mongo, { wish: { questionIds: ids }, context: known });
  let seen: unknown;
  await run(
    actor((_ids, _signal, task) => {
      seen = (task.data as Data).questions;
      return { items: goodAnswer(['d']).items };
    }),
    command,
  );
  t.strictSame(asked, [['b', 'd']], 'and a batch of which it knows none goes nowhere');
  t.strictSame(seen, [
    { id: 'b', content: 'c' },
    { id: 'd', content: 'c' },
  ]);
  t.match(await job(command), { status: 'COMPLETED', counts: { succeeded: 1, failed: 6 } });
  t.strictSame(
    (await brought(command)).errors.map(({ questionId, code }) => [questionId, code]),
    ids
      .filter((id) => id !== 'd')
      .map((id) => [id, id === 'b' ? 'AI_PROVIDER_INVALID_RESPONSE' : 'AI_QUESTION_CONTEXT_FAILED']),
  );
});

t.test('without a bank prompts hold ids only', async (t) => {
  const { mongo, actor, run, job } = await setUp(t);
  const command = await postJob(mongo, { context: 'NONE' });
  const datas: Data[] = [];
  await run(
    actor((_ids, _signal, task) => void datas.push(task.data as Data)),
    command,
  );
  t.match(await job(command), { status: 'COMPLETED' });
  t.ok(datas.length === 2 && datas.every((data) => data.questions === undefined));
});

t.test('a round that has no questions yet loads them first, and fails when they do not come', async (t) => {
  const { mongo, asked, actor, run, job } = await setUp(t);
  const bank = await openFaultReceiver(t);
  const env = { QUESTION_BANK_SERVICE_URL: bank.url, INTERNAL_SERVICE_TOKEN: 'token-of-the-bank' };
  const post = async () => {
    const command = await postJob(mongo, { questions: 60, context: 'NONE', maxAttempts: 3 });
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
    'also where the bank is gone from the configuration',
  );
  t.strictSame(asked, [], 'never with ids only');
});

t.test('a job whose command died with its workers is ended by the sweep, and no other', async (t) => {
  const { mongo, actor, run, job } = await setUp(t);
  const sweeper = actor(() => undefined);
  await postStandingCommands(mongo, sweeper, Date.now() - 1_000);
  const sweep = (await mailboxOf(mongo, 'classifier').findOne({ key: 'classifier:lost-jobs' })) as Command;
  const [lost, waiting, cancelled] = [
    await postJob(mongo, { maxAttempts: 1 }),
    await postJob(mongo),
    await postJob(mongo),
  ];
  await cancelJob(mongo, cancelled.subject, OWNER);
  await mailboxOf(mongo, 'classifier').updateOne({ _id: lost._id }, { $set: { attempts: 1 } });
  t.equal(await run(sweeper, lost), 'dead', 'its last worker was killed');
  t.equal(await run(sweeper, sweep), 'snoozed');
  t.match(await job(lost), { status: 'FAILED', open: false, error: { code: 'INTERNAL' }, finishedAt: Date });
  t.match(await job(waiting), { status: 'PENDING', open: true });
  t.match(await job(cancelled), { status: 'CANCELLED' });
});

t.test('what a job has brought before its command died counts, and what was open becomes errors', async (t) => {
  const { mongo, actor, run, job, brought, told } = await setUp(t);
  const command = await postJob(mongo, { ...twelve, maxAttempts: 2 });
  const fails = actor((ids) => {
    if (ids[0]?.startsWith('q-6-')) throw passing();
  });
  t.equal(await run(fails, command), 'retried');
  await mailboxOf(mongo, 'classifier').updateOne({ _id: command._id }, { $set: { attempts: 2 } });
  await expire(mongo, command);
  t.equal(await run(fails, command), 'dead', 'its last worker was killed');
  await postStandingCommands(mongo, fails, Date.now() - 1_000);
  const sweep = (await mailboxOf(mongo, 'classifier').findOne({ key: 'classifier:lost-jobs' })) as Command;
  told.length = 0;
  t.equal(await run(fails, sweep), 'snoozed');
  t.match(await job(command), { status: 'COMPLETED', open: false, error: null, counts: { succeeded: 5, failed: 7 } });
  t.equal(await finishedOnce(mongo, command.subject), 1);
  const { errors } = await brought(command);
  t.strictSame([...new Set(errors.map(({ code }) => code))], ['INTERNAL']);
  t.strictSame(told, [command.subject]);
});

t.test('it idles unless it is enabled', async (t) => {
  const { actor } = await setUp(t);
  const idle = actor(() => undefined, { AI_CLASSIFIER_WORKER_ENABLED: '0' });
  t.match(idle, { queues: [], standing: undefined });
  const settings = { AI_CLASSIFIER_WORKER_CONCURRENCY: '7', AI_CLASSIFIER_WORKER_POLL_INTERVAL_MS: '50' };
  t.match(
    actor(() => undefined, settings),
    { queues: ['classifier'], concurrency: 7, pollMs: 50, leaseMs: 60_000 },
  );
});
