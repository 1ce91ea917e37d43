import { callerOf } from '#api/classifier/caller.ts';
import type { JobDeps } from '#api/classifier/job-deps.ts';
import { pageOf } from '#api/classifier/job-page.ts';
import type { Call, Reply } from '#api/route.ts';
import { batchErrors } from '#infra/mongo/classifier/job-batches.ts';
import { findOwnJob } from '#infra/mongo/classifier/jobs.ts';
import { broughtBy } from '#shared/classifier/job-view.ts';
import type { JobErrorsQuery } from '#shared/generated/classifier.ts';
import type { Rejection } from '#shared/kernel/errors.ts';

/** A page of the questions that have no suggestions, and why; a job has 2,000 at most. */
export async function listJobErrors(
  { mongo }: JobDeps,
  call: Call<unknown, JobErrorsQuery>,
): Promise<Reply | Rejection> {
  const job = await findOwnJob(mongo, call.params.jobId ?? '', callerOf(call.identity));
  if (job === null) return { rejected: 'JOB_NOT_FOUND' };
  const { limit, offset } = pageOf(call.query);
  const { errors } = broughtBy(job.round, await batchErrors(mongo, job._id));
  return { status: 200, data: { items: errors.slice(offset, offset + limit), total: errors.length, limit, offset } };
}
