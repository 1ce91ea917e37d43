import type { ClientSession } from 'mongodb';
import type { JobRow } from '#infra/mongo/classifier/collections.ts';
import { openBatches } from '#infra/mongo/classifier/job-batches.ts';
import { endOrphanedRound, type OrphanedRound, RoundOver } from '#infra/mongo/classifier/job-round.ts';
import { openJobsAfter } from '#infra/mongo/classifier/jobs.ts';
import { Stale } from '#infra/mongo/guarded-update.ts';
import { findLive, postCommandsIn } from '#infra/mongo/mailbox/mailbox.ts';
import { classifierWork, ORPHANED_JOBS_SWEEP, roundKey } from '#shared/classifier/commands.ts';
import { type JobEnd, jobEndOf, WORKERS_LOST } from '#shared/classifier/job.ts';
import type { Models } from '#shared/classifier/tasks/envelope.ts';
import { MINUTE } from '#shared/kernel/time.ts';
import type { Actor, Outcome, Run, WorkerDeps } from '#workers/actor.ts';
import { allFailed } from './classify-batch.ts';
import { jobEvents, runJob } from './run-job.ts';

const CAP_MS = 5 * MINUTE;

/**
 * Classifies the questions of jobs in batches of five; no other actor does. The outcome of a batch is stored while its slot classifies the
 * next one. A run that is cut off therefore repeats at most two batches a slot. Idles unless it is enabled.
 */
export function classifierActor(deps: WorkerDeps, models: () => Models = deps.models): Actor {
  const { enabled, concurrency, pollIntervalMs, leaseMs, retryBaseDelayMs } = deps.config.classifier.worker;
  const common = {
    name: 'classifier',
    concurrency,
    pollMs: pollIntervalMs,
    leaseMs,
    turns: { classifier: 'ALL' } as const,
    backoff: { baseMs: retryBaseDelayMs, capMs: CAP_MS },
  };
  if (!enabled) return { ...common, handlers: {} };
  const jobDeps = { ...deps, models: models() };
  return {
    ...common,
    recurring: [ORPHANED_JOBS_SWEEP],
    handlers: {
      classifier(run) {
        const work = classifierWork(run.command);
        return work.kind === 'sweep'
          ? sweepOrphanedJobs(deps, run, work.afterId)
          : runJob(jobDeps, { ...run, at: work.at });
      },
    },
  };
}

type SweepDeps = Pick<WorkerDeps, 'mongo' | 'now' | 'log' | 'publishJobChange' | 'wanted'>;

/** Number of jobs that one sweep reads. The next sweep continues after them. */
const CHUNK = 200;

/** Ends the jobs whose command is dead. Such a command killed every worker that ran it, so no run is left to end its job. */
async function sweepOrphanedJobs(
  deps: SweepDeps & Pick<WorkerDeps, 'config'>,
  run: Run<'classifier'>,
  afterId: string,
): Promise<Outcome<'classifier'>> {
  const jobs = await openJobsAfter(deps.mongo, { afterId, limit: CHUNK, session: run.session });
  for (const job of jobs) {
    run.signal.throwIfAborted();
    const orphaned = await orphanedRound(deps, job, run.session);
    if (orphaned !== null) await endOrphanedJob(deps, orphaned, run.session);
  }
  const last = jobs.length < CHUNK ? undefined : jobs.at(-1);
  await run.checkpoint(last === undefined ? {} : { afterId: last._id }, async () => undefined);
  return { kind: 'snooze', afterMs: deps.config.upkeep.intervalMs };
}

async function orphanedRound(
  { mongo }: Pick<WorkerDeps, 'mongo'>,
  { _id: jobId, round }: JobRow,
  session: ClientSession,
): Promise<OrphanedRound | null> {
  const at = { jobId, round };
  const command = await findLive(mongo, 'classifier', roundKey(at), session);
  return command?.status === 'PENDING' ? null : { at, fence: command?.fence ?? null };
}

/**
 * Ends a job as a failed last attempt would: stored outcomes stay, open batches become errors. The job is left unchanged if it was
 * ended or restarted since it was read, or if an operator has replayed its command.
 */
async function endOrphanedJob(deps: SweepDeps, orphaned: OrphanedRound, session: ClientSession): Promise<void> {
  const { mongo, log, publishJobChange } = deps;
  const { jobId } = orphaned.at;
  const open = await openBatches(mongo, orphaned.at, session);
  const failed = open.map((batch) => allFailed(batch, WORKERS_LOST));
  try {
    const ended = async (job: JobRow, end: JobEnd, own: ClientSession) =>
      postCommandsIn(mongo, own, await jobEvents(deps, orphaned.at, job, end.status));
    await endOrphanedRound(mongo, orphaned, failed, (succeeded) => jobEndOf({ succeeded }, WORKERS_LOST), ended);
  } catch (error) {
    if (error instanceof RoundOver || error instanceof Stale) return;
    throw error;
  }
  log.warn({ jobId }, 'job ended: its command is dead');
  publishJobChange(jobId);
}
