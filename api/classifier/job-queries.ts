import type { Call, Reply } from '#api/route.ts';
import type { JobRow } from '#infra/mongo/classifier/collections.ts';
import { batchErrors, batchOutcomes } from '#infra/mongo/classifier/job-batches.ts';
import {
  findJob,
  findOwnJob,
  findSelection,
  findSelections,
  listJobs,
  summarizeJobs,
} from '#infra/mongo/classifier/jobs.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { JOB_STATUSES } from '#shared/classifier/job.ts';
import { errorsOfRound, itemsOfRound, jobView, queuedJobView } from '#shared/classifier/job-view.ts';
import type { JobErrorsQuery, JobListQuery, QueueSummaryQuery } from '#shared/generated/classifier.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { callerOf, type JobDeps } from './deps.ts';

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

export async function showJob({ mongo }: JobDeps, call: Call): Promise<Reply | Rejection> {
  const job = await findOwnJob(mongo, call.params.jobId ?? '', callerOf(call.identity));
  if (job === null) return { rejected: 'JOB_NOT_FOUND' };
  return { status: 200, data: { job: (await wholeJob(mongo, job)).view } };
}

/** A page of the questions that have no suggestions, and why; a job has 2,000 at most. */
export async function listJobErrors(
  { mongo }: JobDeps,
  call: Call<unknown, JobErrorsQuery>,
): Promise<Reply | Rejection> {
  const job = await findOwnJob(mongo, call.params.jobId ?? '', callerOf(call.identity));
  if (job === null) return { rejected: 'JOB_NOT_FOUND' };
  const { limit, offset } = pageOf(call.query);
  const errors = errorsOfRound(job.round, await batchErrors(mongo, job._id));
  return { status: 200, data: { items: errors.slice(offset, offset + limit), total: errors.length, limit, offset } };
}

const LIMIT = 20;

/** The page that a query asks for, its bounds already checked by the schema. */
function pageOf(query: { limit?: number; offset?: number }): { limit: number; offset: number } {
  return { limit: query.limit ?? LIMIT, offset: query.offset ?? 0 };
}

const SAMPLE = 20;
const RECENT_FAILURES = 10;
const COMMANDS = {
  retry: '/v1/ai-classifier/jobs/{id}/retry',
  cancel: '/v1/ai-classifier/jobs/{id}/cancel',
};

/** The jobs of every organization, counted, for an admin's projection. */
export async function summarizeQueue({ mongo }: JobDeps, call: Call<unknown, QueueSummaryQuery>): Promise<Reply> {
  const failures = call.query.recentFailuresLimit ?? RECENT_FAILURES;
  const summary = await summarizeJobs(mongo, { open: SAMPLE, failures });
  const counts = Object.fromEntries(JOB_STATUSES.map((status) => [status, summary.counts[status] ?? 0]));
  return {
    status: 200,
    data: {
      sourceService: 'ai-classifier-service',
      counts,
      depth: { pending: counts.PENDING, running: counts.RUNNING },
      sample: summary.open.map(queuedJobView),
      recentFailures: summary.failures.map(queuedJobView),
      commands: COMMANDS,
    },
  };
}

/** A job changes with each batch: so many looks for one at which it stood still, then its items may be ahead of its counts. */
const MOST_LOOKS = 4;

/** The job with all that it has brought so far; the row may be older than what comes back. */
export async function wholeJob(mongo: Mongo, row: JobRow): Promise<{ revision: number; view: unknown }> {
  const selection = await findSelection(mongo, row._id);
  let job = row;
  for (let look = 1; ; look++) {
    const batches = job.counts.batchesDone === 0 ? [] : await batchOutcomes(mongo, job._id);
    const now = batches.length === 0 ? job : ((await findJob(mongo, job._id)) ?? job);
    if (now.revision === job.revision || look === MOST_LOOKS) {
      return { revision: job.revision, view: jobView(job, selection, itemsOfRound(job.round, batches)) };
    }
    job = now;
  }
}

/** The job as lists show it. */
export async function slimJob(mongo: Mongo, job: JobRow): Promise<unknown> {
  return jobView(job, await findSelection(mongo, job._id), null);
}
