import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import type { JobSelection } from '#shared/classifier/job.ts';
import { aiJobSelections, aiJobs, type JobRow } from './collections.ts';
import { type JobOwner, owns } from './job-owner.ts';

export const BOUND = { maxTimeMS: QUERY_LIMIT_MS };

/** The job, whosever it is; null: there is none. */
export function findJob(mongo: Mongo, id: string): Promise<JobRow | null> {
  return aiJobs(mongo).findOne({ _id: id }, BOUND);
}

/** The job, if it is this owner's. */
export async function findOwnJob(mongo: Mongo, id: string, owner: JobOwner): Promise<JobRow | null> {
  const job = await findJob(mongo, id);
  return job !== null && owns(owner, job) ? job : null;
}

/** The PENDING or RUNNING job of this key; there is at most one. */
export function findOpenJob(mongo: Mongo, openKey: string): Promise<JobRow | null> {
  return aiJobs(mongo).findOne({ openKey, open: true }, { hint: 'open_key', ...BOUND });
}

/** What these jobs classify, by job; written with the job and never changed. */
export async function findSelections(mongo: Mongo, jobIds: readonly string[]): Promise<Map<string, JobSelection>> {
  const found = await aiJobSelections(mongo)
    .find({ _id: { $in: [...jobIds] } }, BOUND)
    .toArray();
  return new Map(found.map((selection) => [selection._id, selection]));
}

export async function findSelection(mongo: Mongo, jobId: string): Promise<JobSelection> {
  const selection = await aiJobSelections(mongo).findOne({ _id: jobId }, BOUND);
  if (selection === null) throw new Error(`job ${jobId} has no selection`);
  return selection;
}
