import { callerOf } from '#api/classifier/caller.ts';
import type { JobDeps } from '#api/classifier/job-deps.ts';
import { wholeJob } from '#api/classifier/whole-job.ts';
import type { Call, Reply } from '#api/route.ts';
import { retryJob } from '#infra/mongo/classifier/jobs.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { jobCommand } from './create-job.ts';

/** Starts a FAILED or CANCELLED job over under its id: result, error, times and attempts begin anew. */
export async function retryOneJob(deps: JobDeps, call: Call): Promise<Reply | Rejection> {
  const jobId = call.params.jobId ?? '';
  const now = deps.now();
  const retried = await retryJob(deps.mongo, jobId, callerOf(call.identity), (body) => jobCommand(body, deps, now));
  if (retried === 'unknown') return { rejected: 'JOB_NOT_FOUND' };
  if (retried === 'conflict') return { rejected: 'JOB_STATE_CONFLICT' };
  void deps.doorbells.ring('classifier', retried.commandId, 0);
  deps.jobBell.wake([jobId]);
  return { status: 200, data: { job: (await wholeJob(deps.mongo, retried.job)).view } };
}
