import type { JobRow } from '#infra/mongo/classifier/collections.ts';
import { openBatches } from '#infra/mongo/classifier/job-batches.ts';
import { endLostRound, type LostRound, RoundOver } from '#infra/mongo/classifier/job-round.ts';
import { openJobsAfter } from '#infra/mongo/classifier/jobs.ts';
import { Stale } from '#infra/mongo/guarded-update.ts';
import { findLive } from '#infra/mongo/mailbox/mailbox.ts';
import { classifierWork, LOST_JOBS_SWEEP, roundKey } from '#shared/classifier/commands.ts';
import { endOf, WORKERS_LOST } from '#shared/classifier/job.ts';
import type { Models } from '#shared/classifier/tasks/task.ts';
import { MINUTE } from '#shared/kernel/time.ts';
import type { Actor, Outcome, Run, WorkerDeps } from '#workers/actor.ts';
import { allFailed } from './classify-batch.ts';
import { runJob } from './run-job.ts';

const CAP_MS = 5 * MINUTE;

/**
 * Classifies the questions of jobs, five at a time, and nobody else does. What a batch has brought is stored before its slot is free: a
 * run that is cut off repeats at most the batches that were with the provider. Idles unless it is enabled.
 */
export function classifierActor(deps: WorkerDeps, models: () => Models = deps.models): Actor {
  const { enabled, concurrency, pollIntervalMs, leaseMs, retryBaseDelayMs } = deps.config.classifier.worker;
  const common = {
    name: 'classifier',
    concurrency,
    pollMs: pollIntervalMs,
    leaseMs,
    backoff: { baseMs: retryBaseDelayMs, capMs: CAP_MS },
  };
  if (!enabled) return { ...common, handlers: {} };
  const jobDeps = { ...deps, models: models() };
  return {
    ...common,
    standing: [LOST_JOBS_SWEEP],
    handlers: {
      classifier(run) {
        const work = classifierWork(run.command);
        return work.kind === 'sweep'
          ? sweepLostJobs(deps, run, work.afterId)
          : runJob(jobDeps, { ...run, at: work.at });
      },
    },
  };
}

type SweepDeps = Pick<WorkerDeps, 'mongo' | 'log' | 'tellJob'>;

/** Jobs that one sweep reads; the next sweep goes on behind them. */
const CHUNK = 200;

/** Ends the jobs whose command is dead: it killed every worker that ran it, and nobody else would ever end them. */
async function sweepLostJobs(
  deps: SweepDeps & Pick<WorkerDeps, 'config'>,
  run: Run<'classifier'>,
  afterId: string,
): Promise<Outcome<'classifier'>> {
  const jobs = await openJobsAfter(deps.mongo, afterId, CHUNK);
  for (const job of jobs) {
    run.signal.throwIfAborted();
    const lost = await lostRound(deps, job);
    if (lost !== null) await giveUp(deps, lost);
  }
  const last = jobs.length < CHUNK ? undefined : jobs.at(-1);
  await run.checkpoint(last === undefined ? {} : { afterId: last._id }, async () => undefined);
  return { kind: 'snooze', afterMs: deps.config.upkeep.intervalMs };
}

async function lostRound(
  { mongo }: Pick<WorkerDeps, 'mongo'>,
  { _id: jobId, round }: JobRow,
): Promise<LostRound | null> {
  const at = { jobId, round };
  const command = await findLive(mongo, 'classifier', roundKey(at));
  return command?.status === 'PENDING' ? null : { at, fence: command?.fence ?? null };
}

/**
 * As if its last attempt had failed: what it has brought stays, what is open becomes errors. A job that was ended or started over
 * since it was read is left as it is, and so is one whose command an operator runs again.
 */
async function giveUp({ mongo, log, tellJob }: SweepDeps, lost: LostRound): Promise<void> {
  const { jobId } = lost.at;
  const open = await openBatches(mongo, jobId, lost.at.round);
  const failed = open.map((batch) => allFailed(batch, WORKERS_LOST));
  try {
    await endLostRound(mongo, lost, failed, (succeeded) => endOf({ succeeded }, WORKERS_LOST));
  } catch (error) {
    if (error instanceof RoundOver || error instanceof Stale) return;
    throw error;
  }
  log.warn({ jobId }, 'a job was given up with its command');
  tellJob(jobId);
}
