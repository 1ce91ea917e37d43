import type { JobStatus } from './classification.ts';
import type { ClassificationJob, JobCounts } from './job.ts';

/** How a job ends whose batches are all done. */
export interface JobEnd {
  status: Extract<JobStatus, 'COMPLETED' | 'FAILED'>;
  error: ClassificationJob['error'];
}

/** COMPLETED when any question has suggestions; else FAILED, by the last of the errors that kept them from it. */
export function endOf(
  counts: Pick<JobCounts, 'succeeded'>,
  lastError: { code: string; message: string } | null,
): JobEnd {
  if (counts.succeeded > 0) return { status: 'COMPLETED', error: null };
  const { code, message } = lastError ?? NOTHING_CAME;
  return { status: 'FAILED', error: { code, message } };
}

const NOTHING_CAME = { code: 'AI_PROVIDER_INVALID_RESPONSE', message: 'No question was classified' };

/** Of a job, or what was still open of it, whose command died with the workers that ran it: nobody works on it any more. */
export const WORKERS_LOST = {
  code: 'INTERNAL',
  message: 'The job was given up: its worker failed at every attempt',
} as const;
