import { type Config, readConfig } from '#infra/config/config.ts';
import type { ConfiguredAs, WorkerType } from '#infra/config/readers.ts';
import { openModels } from '#infra/models/open-models.ts';
import { openAttemptReads } from '#infra/mongo/attempt/attempts.ts';
import { openGradingPapers } from '#infra/mongo/attempt/corrections.ts';
import { completeExam, openExamNotes } from '#infra/mongo/attempt/exams.ts';
import { openPapers } from '#infra/mongo/attempt/papers.ts';
import { openBindingReleases } from '#infra/mongo/attempt/release.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { openWanted } from '#infra/mongo/operations/subscriptions.ts';
import { applyWrites } from '#infra/mongo/writes.ts';
import { openBackground } from '#infra/process/background.ts';
import type { CommandRef, Queue } from '#shared/kernel/command.ts';
import type { Now } from '#shared/kernel/time.ts';
import { captureLog } from '#testing/captured-log.ts';
import { taskModels } from '#testing/models/asked-models.ts';
import {
  type Actor,
  type Effects,
  type Handlers,
  type Outcome,
  queuesOf,
  type Run,
  type WorkerDeps,
} from '#workers/actor.ts';
import type { Kernel, RunResult } from '#workers/life.ts';
import { openGroups } from '#workers/settle.ts';
import { openWorker, type Worker } from '#workers/worker.ts';

export type TestKernel = ReturnType<typeof testKernel>;
export type KernelOverrides = Partial<Pick<Kernel, 'workerId' | 'leaseMs' | 'alone'>>;

/** Returns a kernel with a lease of a minute, which does not expire during a test unless the test makes it. */
export function testKernel(mongo: Mongo, overrides: KernelOverrides = {}) {
  const [log, halt] = [captureLog(), new AbortController()];
  /** Ids of the commands whose end was published to waiting front doors. */
  const announced: string[] = [];
  const results: { queue: Queue; result: RunResult }[] = [];
  const kernel: Kernel = {
    mongo,
    log,
    workerId: 'worker-1',
    leaseMs: 60_000,
    stop: halt.signal,
    ...openGroups(mongo),
    publishSettled: (id) => void announced.push(id),
    count: (queue, result) => void results.push({ queue, result }),
    ran: () => undefined,
    random: () => 0.5,
    ...overrides,
  };
  return { ...kernel, log, halt, announced, results };
}

export type TestWorkerDeps = ReturnType<typeof testWorkerDeps>;

/** Returns the dependencies of an actor, configured by the product's own configuration reader. Rings, alarms and job changes are recorded. */
export function testWorkerDeps(mongo: Mongo, env: NodeJS.ProcessEnv = {}) {
  const [log, config] = [captureLog(), testConfig(env)];
  const rings: CommandRef[] = [];
  const alarms: string[] = [];
  const publishedJobs: string[] = [];
  const papers = openPapers(mongo, 8 * 1024 * 1024);
  const deps: WorkerDeps = {
    mongo,
    papers,
    findAttempt: openAttemptReads(mongo),
    bindingRelease: openBindingReleases(mongo),
    gradingPaper: openGradingPapers(mongo, papers),
    completeExam: openExamNotes(mongo, completeExam),
    now: Date.now,
    log,
    config,
    models: () => taskModels(openModels({ ...MOCK_ONLY, settings: config.classifier, log: captureLog() }).ask),
    publishJobChange: (jobId) => void publishedJobs.push(jobId),
    ring: ({ _id, queue, key }) => void rings.push({ _id, queue, key }),
    alarm: (name) => void alarms.push(name),
    wanted: openWanted(mongo, Date.now, captureLog()),
    background: openBackground({ concurrency: 4, maxWaiting: 100, dropped: () => undefined, failed: () => undefined }),
  };
  /** Returns the same configuration as a process of this type reads it. */
  const configOf = (type: WorkerType) => testConfig(env, type);
  return { ...deps, log, rings, alarms, publishedJobs, configOf };
}

const MOCK_ONLY = { now: Date.now, recordUsage: () => undefined, shared: null, selection: null };

/**
 * Limits of calls to other services that outlast any pause of a busy machine. A call that times out although its receiver took it is
 * sent again, and the receiver counts two.
 */
export const PATIENT_CALLS = { OUTBOUND_TIMEOUT_MS: '60000', NOTIFICATION_WEBHOOK_TIMEOUT_MS: '25000' } as const;

/** Returns a configuration with the shortest allowed backoffs and patient calls: that of a process type, or one that has every variable. */
export function testConfig(env: NodeJS.ProcessEnv = {}, type: ConfiguredAs = 'cluster'): Config {
  return readConfig(
    {
      MONGODB_URL: 'mongodb://127.0.0.1/',
      ...PATIENT_CALLS,
      WORKER_RETRY_BASE_DELAY_MS: '1',
      ATTEMPT_OUTBOX_RETRY_BASE_MS: '1',
      NOTIFICATION_DELIVERY_RETRY_BASE_MS: '1',
      AI_CLASSIFIER_WORKER_ENABLED: '1',
      AI_CLASSIFIER_WORKER_RETRY_BASE_DELAY_MS: '1',
      ...env,
    },
    type,
  );
}

/** Opens a worker for an actor and drains it at the end of the test. It polls once an hour, in effect never, unless `pollMs` is set. */
export function testWorker(
  t: { teardown(work: () => unknown): void },
  kernel: Kernel,
  actor: Actor,
  options: { concurrency?: number; pollMs?: number; now?: Now } = {},
): Worker {
  const worker = openWorker(kernel, actor, { concurrency: 4, pollMs: 3_600_000, now: Date.now, ...options });
  t.teardown(() => worker.drain());
  return worker;
}

type Done = Extract<Outcome, { kind: 'done' }>;
export type AnyOutcome =
  | Exclude<Outcome, { kind: 'done' | 'rejected' }>
  | (Omit<Done, 'result'> & { result: unknown })
  | { kind: 'rejected'; result: unknown };

/** Replaces one run of an actor. `real` calls the actor's own handler, with this run or with the run passed to it. */
export type Step = (run: Run<Queue>, real: (run?: Run<Queue>) => Promise<Outcome>) => Promise<AnyOutcome>;

/** Returns the actor with `step` in place of each of its runs. */
export function withStep(actor: Actor, step: Step): Actor {
  const handlers: Handlers = {};
  function wrap<Q extends Queue>(queue: Q): void {
    const real = actor.handlers[queue];
    if (real === undefined) return;
    // A step may return an outcome that no actor of this queue returns.
    const handler = (run: Run<Q>) => step(run, (given = run) => real(given as Run<Q>)) as Promise<Outcome<Q>>;
    Object.assign(handlers, { [queue]: handler });
  }
  for (const queue of queuesOf(actor)) wrap(queue);
  return { ...actor, handlers };
}

/** Returns the actor with its first runs replaced, one step each. `null`, and every run after the last step, calls the actor's handler. */
export function scriptActor(actor: Actor, ...steps: (Step | null)[]): Actor & { runs: string[] } {
  const runs: string[] = [];
  const actorWithSteps = withStep(actor, (run, real) => {
    const step = steps[runs.push(run.command._id) - 1] ?? null;
    return step === null ? real() : step(run, real);
  });
  return { ...actorWithSteps, runs };
}

/** Returns the outcome with one more effect in its transaction. A rejected outcome has no effects and is returned unchanged. */
export function withEffect(mongo: Mongo, outcome: AnyOutcome, more: Effects): AnyOutcome {
  if (outcome.kind === 'rejected') return outcome;
  const { effects } = outcome;
  return {
    ...outcome,
    effects: async (session) => {
      if (typeof effects === 'function') await effects(session);
      else await applyWrites(mongo, effects ?? [], session);
      await more(session);
    },
  };
}
