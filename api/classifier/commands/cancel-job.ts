import { callerOf } from '#api/classifier/caller.ts';
import type { JobDeps } from '#api/classifier/job-deps.ts';
import { wholeJob } from '#api/classifier/whole-job.ts';
import type { Call, Reply } from '#api/route.ts';
import { cancelJob } from '#infra/mongo/classifier/jobs.ts';
import type { Rejection } from '#shared/kernel/errors.ts';

/** Ends a job that is not finished. What it has brought stays; from here on nothing is added. */
export async function cancelOneJob(deps: JobDeps, call: Call): Promise<Reply | Rejection> {
  const jobId = call.params.jobId ?? '';
  const tried = await cancelJob(deps.mongo, jobId, callerOf(call.identity));
  if (tried === null) return { rejected: 'JOB_NOT_FOUND' };
  if (!tried.cancelled) {
    return { rejected: 'JOB_STATE_CONFLICT', message: `The job is ${tried.job.status}` };
  }
  deps.jobBell.wake([jobId]);
  return { status: 200, data: { job: (await wholeJob(deps.mongo, tried.job)).view } };
}
