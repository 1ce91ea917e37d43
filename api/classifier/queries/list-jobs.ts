import { callerOf } from '#api/classifier/caller.ts';
import type { JobDeps } from '#api/classifier/job-deps.ts';
import { pageOf } from '#api/classifier/job-page.ts';
import type { Call, Reply } from '#api/route.ts';
import { findSelections, listJobs } from '#infra/mongo/classifier/jobs.ts';
import { jobView } from '#shared/classifier/job-view.ts';
import type { JobListQuery } from '#shared/generated/classifier.ts';

/** A page of the caller's jobs, newest first, without what they have brought. */
export async function listOwnJobs({ mongo }: JobDeps, call: Call<unknown, JobListQuery>): Promise<Reply> {
  const page = pageOf(call.query);
  const wanted = { ...callerOf(call.identity), status: call.query.status ?? null, ...page };
  const { jobs, total } = await listJobs(mongo, wanted);
  const selections = await findSelections(
    mongo,
    jobs.map(({ _id }) => _id),
  );
  const items = jobs.flatMap((job) => {
    const selection = selections.get(job._id);
    return selection === undefined ? [] : [jobView(job, selection, null)];
  });
  return { status: 200, data: { items, total, ...page } };
}
