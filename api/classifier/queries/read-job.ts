import { callerOf } from '#api/classifier/caller.ts';
import type { JobDeps } from '#api/classifier/job-deps.ts';
import { wholeJob } from '#api/classifier/whole-job.ts';
import type { Call, Reply } from '#api/route.ts';
import { findOwnJob } from '#infra/mongo/classifier/jobs.ts';
import type { Rejection } from '#shared/kernel/errors.ts';

export async function showJob({ mongo }: JobDeps, call: Call): Promise<Reply | Rejection> {
  const job = await findOwnJob(mongo, call.params.jobId ?? '', callerOf(call.identity));
  if (job === null) return { rejected: 'JOB_NOT_FOUND' };
  return { status: 200, data: { job: (await wholeJob(mongo, job)).view } };
}
