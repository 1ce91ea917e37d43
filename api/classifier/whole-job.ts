import type { JobRow } from '#infra/mongo/classifier/collections.ts';
import { batchOutcomes } from '#infra/mongo/classifier/job-batches.ts';
import { findJob, findSelection } from '#infra/mongo/classifier/jobs.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { broughtBy, jobView } from '#shared/classifier/job-view.ts';

/** A job changes with each batch: so many looks for one at which it stood still, then its items may be ahead of its counts. */
const MOST_LOOKS = 4;

/** The job with all that it has brought so far; the row may be older than what comes back. */
export async function wholeJob(mongo: Mongo, row: JobRow): Promise<{ revision: number; view: unknown }> {
  const selection = await findSelection(mongo, row._id);
  let job = row;
  for (let look = 1; ; look++) {
    const batches = job.counts.batchesDone === 0 ? [] : await batchOutcomes(mongo, job._id);
    const now = batches.length === 0 ? job : ((await findJob(mongo, job._id)) ?? job);
    if (now.revision === job.revision || look === MOST_LOOKS) {
      return { revision: job.revision, view: jobView(job, selection, broughtBy(job.round, batches).items) };
    }
    job = now;
  }
}

/** The job as lists show it. */
export async function slimJob(mongo: Mongo, job: JobRow): Promise<unknown> {
  return jobView(job, await findSelection(mongo, job._id), null);
}
