import type { JobDeps } from '#api/classifier/job-deps.ts';
import type { Call, Reply } from '#api/route.ts';
import { summarizeJobs } from '#infra/mongo/classifier/jobs.ts';
import { JOB_STATUSES } from '#shared/classifier/job.ts';
import { queuedJobView } from '#shared/classifier/job-view.ts';
import type { QueueSummaryQuery } from '#shared/generated/classifier.ts';

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
