import { commandKeyOf, type JobBody } from '../../shared/classifier/job.ts';
import { WORKERS_LOST } from '../../shared/classifier/job-end.ts';
import type { JobRow } from '../../shared/infra/mongo/classifier/collections.ts';
import { endRound, RoundOver } from '../../shared/infra/mongo/classifier/job-round.ts';
import { openJobsAfter } from '../../shared/infra/mongo/classifier/open-jobs.ts';
import { findLive } from '../../shared/infra/mongo/mailbox/post-command.ts';
import type { Run } from '../actor.ts';
import type { WorkerDeps } from '../deps.ts';
import type { Outcome } from '../outcome.ts';

/** Where the next sweep goes on; absent = at the beginning. */
export interface SweepProgress {
  afterId?: string;
}

const CHUNK = 200;

/** Ends the jobs whose command is dead: it killed every worker that ran it, and nobody else would ever end them. */
export async function sweepLostJobs(
  deps: Pick<WorkerDeps, 'mongo' | 'config' | 'log' | 'tellJob'>,
  run: Run<JobBody, SweepProgress>,
): Promise<Outcome> {
  const jobs = await openJobsAfter(deps.mongo, run.command.progress?.afterId ?? '', CHUNK);
  for (const job of jobs) {
    run.signal.throwIfAborted();
    if (await isLost(deps, job)) await giveUp(deps, job);
  }
  const last = jobs.length < CHUNK ? undefined : jobs.at(-1);
  await run.checkpoint(last === undefined ? {} : { afterId: last._id }, async () => undefined);
  return { kind: 'snooze', afterMs: deps.config.upkeep.intervalMs };
}

async function isLost({ mongo }: Pick<WorkerDeps, 'mongo'>, { _id: jobId, round }: JobRow): Promise<boolean> {
  const command = await findLive(mongo, 'classifier', commandKeyOf({ jobId, round }));
  return command?.status !== 'PENDING';
}

/** A job that was ended or started over since it was read is left as it is. */
async function giveUp(deps: Pick<WorkerDeps, 'mongo' | 'log' | 'tellJob'>, job: JobRow): Promise<void> {
  try {
    await endRound(deps.mongo, { jobId: job._id, round: job.round }, WORKERS_LOST);
  } catch (error) {
    if (error instanceof RoundOver) return;
    throw error;
  }
  deps.log.warn({ jobId: job._id }, 'a job was given up with its command');
  deps.tellJob(job._id);
}
