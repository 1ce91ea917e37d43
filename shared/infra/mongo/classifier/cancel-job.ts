import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { guardedUpdate, wasAccepted } from '#infra/mongo/guarded-update.ts';
import { aiJobs, type JobRow } from './collections.ts';
import { isOwners, type JobOwner, owns } from './job-owner.ts';

/** The job as it is then; `cancelled` false: it was finished already. null: this owner has no such job. */
export async function cancelJob(
  mongo: Mongo,
  id: string,
  owner: JobOwner,
): Promise<{ job: JobRow; cancelled: boolean } | null> {
  const update = guardedUpdate([...isOwners(owner), { $in: ['$status', ['PENDING', 'RUNNING']] }], {
    status: 'CANCELLED',
    open: false,
    finishedAt: '$$NOW',
    updatedAt: '$$NOW',
    revision: { $add: ['$revision', 1] },
  });
  const job = await aiJobs(mongo).findOneAndUpdate({ _id: id }, update.pipeline, {
    returnDocument: 'after',
    maxTimeMS: QUERY_LIMIT_MS,
  });
  if (job === null || !owns(owner, job)) return null;
  return { job, cancelled: wasAccepted(update, job) };
}
