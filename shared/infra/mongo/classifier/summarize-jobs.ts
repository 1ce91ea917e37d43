import type { Mongo } from '#infra/mongo/connect.ts';
import type { JobStatus } from '#shared/classifier/job.ts';
import { aiJobs, type JobRow } from './collections.ts';
import { BOUND } from './find-job.ts';

export interface JobSummary {
  /** Of every organization; a status of which there is none is missing. */
  counts: Partial<Record<JobStatus, number>>;
  /** PENDING and RUNNING, the oldest first. */
  open: JobRow[];
  /** FAILED, the newest first. */
  failures: JobRow[];
}

export async function summarizeJobs(mongo: Mongo, limits: { open: number; failures: number }): Promise<JobSummary> {
  const [counted, open, failures] = await Promise.all([
    aiJobs(mongo)
      .aggregate<{ _id: JobStatus; count: number }>([{ $group: { _id: '$status', count: { $sum: 1 } } }], {
        hint: 'by_status',
        ...BOUND,
      })
      .toArray(),
    aiJobs(mongo)
      .find({ open: true }, { hint: 'open_jobs', sort: { _id: 1 }, limit: limits.open, ...BOUND })
      .toArray(),
    aiJobs(mongo)
      .find({ status: 'FAILED' }, { hint: 'by_status', sort: { finishedAt: -1 }, limit: limits.failures, ...BOUND })
      .toArray(),
  ]);
  return { counts: Object.fromEntries(counted.map(({ _id, count }) => [_id, count])), open, failures };
}
