import { type Config, readConfig } from '#infra/config/config.ts';
import type { ConfiguredAs, WorkerType } from '#infra/config/readers.ts';
import { openModels } from '#infra/models/open-models.ts';
import { openPapers } from '#infra/mongo/attempt/papers.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { openWanted } from '#infra/mongo/operations/subscriptions.ts';
import { openBackground } from '#infra/process/background.ts';
import type { CommandRef, Queue } from '#shared/kernel/command.ts';
import type { Now } from '#shared/kernel/time.ts';
import { type CapturedLog, captureLog } from '#testing/captured-log.ts';
import { taskModels } from '#testing/models/task-models.ts';
import type { Actor, WorkerDeps } from '#workers/actor.ts';
import type { Kernel, RunResult } from '#workers/life.ts';
import { openWorker, type Worker } from '#workers/worker.ts';

export interface TestKernel extends Kernel {
  log: CapturedLog;
  /** Ids of the commands whose end was published to waiting front doors. */
  announced: string[];
  results: { queue: Queue; result: RunResult }[];
  halt: AbortController;
}

export type KernelOverrides = Partial<Pick<Kernel, 'workerId' | 'leaseMs' | 'alone'>>;

/** Returns a kernel with a lease of a minute, which does not expire during a test unless the test makes it. */
export function testKernel(mongo: Mongo, overrides: KernelOverrides = {}): TestKernel {
  const halt = new AbortController();
  const announced: string[] = [];
  const results: TestKernel['results'] = [];
  return {
    mongo,
    log: captureLog(),
    workerId: 'worker-1',
    leaseMs: 60_000,
    announced,
    results,
    halt,
    stop: halt.signal,
    publishSettled: (id) => void announced.push(id),
    count: (queue, result) => void results.push({ queue, result }),
    ran: () => undefined,
    random: () => 0.5,
    ...overrides,
  };
}

export interface TestWorkerDeps extends WorkerDeps {
  log: CapturedLog;
  rings: CommandRef[];
  alarms: string[];
  /** Ids of the jobs whose change was published to streams. */
  publishedJobs: string[];
  /** Returns the same configuration as a process of this type reads it. */
  configOf: (type: WorkerType) => Config;
}

/** Returns the dependencies of an actor, configured by the product's own configuration reader. Rings, alarms and job changes are recorded. */
export function testWorkerDeps(mongo: Mongo, env: NodeJS.ProcessEnv = {}): TestWorkerDeps {
  const rings: TestWorkerDeps['rings'] = [];
  const alarms: string[] = [];
  const publishedJobs: string[] = [];
  const config = testConfig(env);
  return {
    publishedJobs,
    publishJobChange: (jobId) => void publishedJobs.push(jobId),
    models: () => {
      const { ask } = openModels({ ...MOCK_ONLY, settings: config.classifier, log: captureLog() });
      return taskModels(ask);
    },
    mongo,
    papers: openPapers(mongo, 8 * 1024 * 1024),
    now: Date.now,
    log: captureLog(),
    rings,
    alarms,
    config,
    configOf: (type) => testConfig(env, type),
    ring: ({ _id, queue, key }) => void rings.push({ _id, queue, key }),
    alarm: (name) => void alarms.push(name),
    wanted: openWanted(mongo, Date.now, captureLog()),
    background: openBackground({ concurrency: 4, maxWaiting: 100, dropped: () => undefined, failed: () => undefined }),
  };
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
