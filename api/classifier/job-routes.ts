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
      summary: 'Create a classification job, or find the identical open one',
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
          description: 'New job; FAILED if the question bank did not return the questions',
        },
        { status: 200, schema: 'classifier/create-job-reply', description: 'Identical job that is already open' },
      ],
      errors: ['RATE_LIMITED'],
      handle: (call) => createJob(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/ai-classifier/jobs',
      operation: 'listJobs',
      summary: "List the caller's jobs",
      guards: makers,
      query: 'classifier/job-list-query',
      replies: [{ status: 200, schema: 'classifier/job-list', description: 'Page of jobs, newest first' }],
      errors: [],
      handle: (call) => listOwnJobs(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/ai-classifier/jobs/:jobId',
      operation: 'readJob',
      summary: 'Get one job with its questions and its results so far',
      guards: makers,
      replies: one('Current state of the job'),
      errors: ['JOB_NOT_FOUND'],
      handle: (call) => showJob(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/ai-classifier/jobs/:jobId/errors',
      operation: 'listJobErrors',
      summary: 'List the questions of a job that have no suggestions, with the reasons',
      guards: makers,
      query: 'classifier/job-errors-query',
      replies: [
        { status: 200, schema: 'classifier/job-errors', description: 'Page of errors in the order of the questions' },
      ],
      errors: ['JOB_NOT_FOUND'],
      handle: (call) => listJobErrors(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/ai-classifier/jobs/:jobId/events',
      operation: 'streamJob',
      summary: 'Stream one job as server-sent events until it is finished',
      guards: makers,
      headers: [
        {
          name: 'last-event-id',
          required: false,
          description: 'Id of the last event of an earlier stream; the stream contains newer events only',
        },
      ],
      replies: [
        { status: 200, schema: 'classifier/job-stream', description: 'Event stream, open until the job is finished' },
        {
          status: 204,
          schema: 'classifier/job-stream',
          description: 'End of the stream: `Last-Event-ID` was the last event; do not reconnect',
        },
      ],
      errors: ['JOB_NOT_FOUND', 'RATE_LIMITED'],
      handle: (call) => streamJob(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/ai-classifier/jobs/:jobId/cancel',
      operation: 'cancelJob',
      summary: 'Cancel an unfinished job',
      guards: makers,
      body: NO_FIELDS,
      replies: one('Cancelled job with its results so far'),
      errors: ['JOB_NOT_FOUND', 'JOB_STATE_CONFLICT'],
      handle: (call) => cancelOneJob(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/ai-classifier/jobs/:jobId/retry',
      operation: 'retryJob',
      summary: 'Retry a failed or cancelled job from the start',
      guards: makers,
      body: NO_FIELDS,
      replies: one('Job in state PENDING'),
      errors: ['JOB_NOT_FOUND', 'JOB_STATE_CONFLICT', 'RATE_LIMITED'],
      handle: (call) => retryOneJob(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/admin/ai-classifier/queue-summary',
      operation: 'summarizeQueue',
      summary: 'Summarize the jobs of all organizations',
      guards: guardsFor('ADMIN'),
      query: 'classifier/queue-summary-query',
      replies: [
        {
          status: 200,
          schema: 'classifier/queue-summary',
          description: 'Counts, a sample of open jobs and the newest failures',
        },
      ],
      errors: [],
      handle: (call) => summarizeQueue(deps, call),
    },
  ];
}

function guardsFor(...roles: Role[]): Guard[] {
  return [identity(ACTOR), scope(), role(...roles)];
}
