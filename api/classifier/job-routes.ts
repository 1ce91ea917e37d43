import { ACTOR, identity, type Role, role, scope } from '#api/http/guards/identity.ts';
import { type Guard, NO_FIELDS, type ReplyDoc, type Route, SMALL_BODY } from '#api/route.ts';
import { jobRequestFaults } from '#shared/classifier/new-job.ts';
import type { JobDeps } from './deps.ts';
import { cancelOneJob, createJob, retryOneJob } from './job-commands.ts';
import { listJobErrors, listOwnJobs, showJob, summarizeQueue } from './job-queries.ts';
import { streamJob } from './stream-job.ts';

/** Routes of the caller's classification jobs, called through the gateway, and the queue summary of all jobs for an ADMIN. */
export function jobRoutes(deps: JobDeps): Route[] {
  const makers = guardsFor('ADMIN', 'TEACHER');
  const one = (description: string): ReplyDoc[] => [{ status: 200, schema: 'classifier/job-reply', description }];

  return [
    {
      method: 'POST',
      path: '/v1/ai-classifier/jobs',
      operation: 'createJob',
      summary: 'Classify questions, or find the open job that does',
      guards: makers,
      body: {
        schema: 'classifier/create-job-request',
        maxBytes: SMALL_BODY,
        moreFaults: (body) => jobRequestFaults(body),
      },
      replies: [
        {
          status: 201,
          schema: 'classifier/create-job-reply',
          description: 'A new job; FAILED where the question bank did not give the questions',
        },
        { status: 200, schema: 'classifier/create-job-reply', description: 'An equal one is open' },
      ],
      errors: [],
      handle: (call) => createJob(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/ai-classifier/jobs',
      operation: 'listJobs',
      summary: "The caller's jobs",
      guards: makers,
      query: 'classifier/job-list-query',
      replies: [{ status: 200, schema: 'classifier/job-list', description: 'Newest first' }],
      errors: [],
      handle: (call) => listOwnJobs(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/ai-classifier/jobs/:jobId',
      operation: 'readJob',
      summary: 'One job with its questions and all that it has brought so far',
      guards: makers,
      replies: one('As it is now'),
      errors: ['JOB_NOT_FOUND'],
      handle: (call) => showJob(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/ai-classifier/jobs/:jobId/errors',
      operation: 'listJobErrors',
      summary: 'Questions without suggestions, and why',
      guards: makers,
      query: 'classifier/job-errors-query',
      replies: [{ status: 200, schema: 'classifier/job-errors', description: 'In the order of the questions' }],
      errors: ['JOB_NOT_FOUND'],
      handle: (call) => listJobErrors(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/ai-classifier/jobs/:jobId/events',
      operation: 'streamJob',
      summary: 'One job, live: server-sent events until it is finished',
      guards: makers,
      headers: [
        {
          name: 'last-event-id',
          required: false,
          description: 'Id of the last event of an earlier stream: only what is newer is told',
        },
      ],
      replies: [
        { status: 200, schema: 'classifier/job-stream', description: 'Open until the job is finished' },
        { status: 204, schema: 'classifier/job-stream', description: 'That event was its last: do not come again' },
      ],
      errors: ['JOB_NOT_FOUND', 'RATE_LIMITED'],
      handle: (call) => streamJob(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/ai-classifier/jobs/:jobId/cancel',
      operation: 'cancelJob',
      summary: 'Stop a job that is not finished',
      guards: makers,
      body: NO_FIELDS,
      replies: one('Cancelled, with what it had brought'),
      errors: ['JOB_NOT_FOUND', 'JOB_STATE_CONFLICT'],
      handle: (call) => cancelOneJob(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/ai-classifier/jobs/:jobId/retry',
      operation: 'retryJob',
      summary: 'Start a failed or cancelled job over',
      guards: makers,
      body: NO_FIELDS,
      replies: one('Pending again'),
      errors: ['JOB_NOT_FOUND', 'JOB_STATE_CONFLICT'],
      handle: (call) => retryOneJob(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/admin/ai-classifier/queue-summary',
      operation: 'summarizeQueue',
      summary: 'The jobs of every organization, counted',
      guards: guardsFor('ADMIN'),
      query: 'classifier/queue-summary-query',
      replies: [{ status: 200, schema: 'classifier/queue-summary', description: 'Counts, depth, the newest failures' }],
      errors: [],
      handle: (call) => summarizeQueue(deps, call),
    },
  ];
}

function guardsFor(...roles: Role[]): Guard[] {
  return [identity(ACTOR), scope(), role(...roles)];
}
