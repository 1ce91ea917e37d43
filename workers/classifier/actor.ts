import type { JobBody } from '#shared/classifier/job.ts';
import type { Models } from '#shared/classifier/tasks/task.ts';
import { MINUTE } from '#shared/kernel/time.ts';
import type { Actor, Run } from '#workers/actor.ts';
import type { WorkerDeps } from '#workers/deps.ts';
import type { JobProgress } from './load-context.ts';
import { type SweepProgress, sweepLostJobs } from './lost-jobs.ts';
import { runJob } from './run-job.ts';

const LOST_JOBS = 'classifier:lost-jobs';
const CAP_MS = 5 * MINUTE;

/**
 * Classifies the questions of jobs, five at a time, and nobody else does. What a batch has brought is stored before its slot is free: a
 * run that is cut off repeats at most the batches that were with the provider. Idles unless it is enabled.
 */
export function classifierActor(
  deps: WorkerDeps,
  models: () => Models = deps.models,
): Actor<JobBody, JobProgress | SweepProgress> {
  const { enabled, concurrency, pollIntervalMs, leaseMs, retryBaseDelayMs } = deps.config.classifier.worker;
  const common = {
    name: 'classifier',
    concurrency,
    pollMs: pollIntervalMs,
    leaseMs,
    backoff: { baseMs: retryBaseDelayMs, capMs: CAP_MS },
  };
  if (!enabled) return { ...common, queues: [], run: () => Promise.reject(new Error('the classifier is not enabled')) };
  const jobDeps = { ...deps, models: models() };
  return {
    ...common,
    queues: ['classifier'],
    standing: [{ queue: 'classifier', key: LOST_JOBS, subject: 'jobs' }],
    run: (run) =>
      run.command.key === LOST_JOBS
        ? sweepLostJobs(deps, run as Run<JobBody, SweepProgress>)
        : runJob(jobDeps, run as Run<JobBody, JobProgress>),
  };
}
