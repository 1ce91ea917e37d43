import type { Call, Reply } from '#api/route.ts';
import type { JobRow } from '#infra/mongo/classifier/collections.ts';
import { batchErrors, batchOutcomes, batchQuestions } from '#infra/mongo/classifier/job-batches.ts';
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

/** Returns a page of the caller's jobs, newest first, without their results. */
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
    return selection === undefined ? [] : [jobView(job, selection, { items: null })];
  });
  return { status: 200, data: { items, total, ...page } };
}

/**
 * Returns a job of the caller with its results and stored questions, or JOB_NOT_FOUND. Only this reply contains the questions,
 * because they can be megabytes.
 */
export async function showJob({ mongo }: JobDeps, call: Call): Promise<Reply | Rejection> {
  const job = await findOwnJob(mongo, call.params.jobId ?? '', callerOf(call.identity));
  if (job === null) return { rejected: 'JOB_NOT_FOUND' };
  const questionContext = job.context === 'LOADED' ? await batchQuestions(mongo, job._id) : null;
  return { status: 200, data: { job: (await detailedJobView(mongo, job, { questionContext })).view } };
}

/** Returns a page of a job's questions without suggestions, each with its error. A job has at most 2,000 questions. */
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

/** Returns the page of a query, with defaults. The schema has already checked the bounds. */
function pageOf(query: { limit?: number; offset?: number }): { limit: number; offset: number } {
  return { limit: query.limit ?? LIMIT, offset: query.offset ?? 0 };
}

const SAMPLE = 20;
const RECENT_FAILURES = 10;
const COMMANDS = {
  retry: '/v1/ai-classifier/jobs/{id}/retry',
  cancel: '/v1/ai-classifier/jobs/{id}/cancel',
};

/** Counts the jobs of every organization and lists samples, for an admin's projection. */
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

/** Limit of reads to find a job unchanged while its batches are read. Past it, the items may be ahead of the counts. */
const MAX_READS = 4;

/**
 * Returns the job with its results so far. Reads the job again if it changed meanwhile, so the returned revision may be newer than
 * `row`.
 */
export async function detailedJobView(
  mongo: Mongo,
  row: JobRow,
  parts: Pick<Parameters<typeof jobView>[2], 'questionContext'> = {},
): Promise<{ revision: number; view: unknown }> {
  const selection = await findSelection(mongo, row._id);
  let job = row;
  for (let reads = 1; ; reads++) {
    const batches = job.counts.batchesDone === 0 ? [] : await batchOutcomes(mongo, job._id);
    const now = batches.length === 0 ? job : ((await findJob(mongo, job._id)) ?? job);
    if (now.revision === job.revision || reads === MAX_READS) {
      const items = itemsOfRound(job.round, batches);
      return { revision: job.revision, view: jobView(job, selection, { items, ...parts }) };
    }
    job = now;
  }
}

/** Returns the job as lists show it, without its results. */
export async function listJobView(mongo: Mongo, job: JobRow): Promise<unknown> {
  return jobView(job, await findSelection(mongo, job._id), { items: null });
}
