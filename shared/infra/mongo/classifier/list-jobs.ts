import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import type { JobStatus } from '#shared/classifier/job.ts';
import { aiJobs, type JobRow } from './collections.ts';
import type { JobOwner } from './job-owner.ts';

export interface WantedJobs extends JobOwner {
  /** null: of any. */
  status: JobStatus | null;
  limit: number;
  offset: number;
}

/** A page of this owner's jobs, newest first, and how many there are in all. */
export async function listJobs(
  mongo: Mongo,
  { actorId, organizationId, status, limit, offset }: WantedJobs,
): Promise<{ jobs: JobRow[]; total: number }> {
  const filter = { organizationId, actorId, ...(status === null ? {} : { status }) };
  const bound = { hint: status === null ? 'of_owner' : 'of_owner_by_status', maxTimeMS: QUERY_LIMIT_MS };
  const [jobs, total] = await Promise.all([
    aiJobs(mongo)
      .find(filter, { ...bound, sort: { createdAt: -1, _id: -1 }, skip: offset, limit })
      .toArray(),
    aiJobs(mongo).countDocuments(filter, bound),
  ]);
  return { jobs, total };
}
