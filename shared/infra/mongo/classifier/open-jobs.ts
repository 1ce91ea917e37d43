import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { aiJobs, type JobRow } from './collections.ts';

/** PENDING and RUNNING jobs of every organization, by id, after this one. */
export function openJobsAfter(mongo: Mongo, afterId: string, limit: number): Promise<JobRow[]> {
  return aiJobs(mongo)
    .find(
      { open: true, _id: { $gt: afterId } },
      { hint: 'open_jobs', sort: { _id: 1 }, limit, maxTimeMS: QUERY_LIMIT_MS },
    )
    .toArray();
}
