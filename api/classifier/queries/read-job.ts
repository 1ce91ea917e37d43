import { findOwnJob } from '../../../shared/infra/mongo/classifier/find-job.ts';
import type { Rejection } from '../../../shared/kernel/errors.ts';
import type { Call, Reply } from '../../route.ts';
import { callerOf } from '../caller.ts';
import type { JobDeps } from '../job-deps.ts';
import { wholeJob } from '../whole-job.ts';

export async function showJob({ mongo }: JobDeps, call: Call): Promise<Reply | Rejection> {
  const job = await findOwnJob(mongo, call.params.jobId ?? '', callerOf(call.identity));
  if (job === null) return { rejected: 'JOB_NOT_FOUND' };
  return { status: 200, data: { job: (await wholeJob(mongo, job)).view } };
}
