import { ACTOR, identity, type Role, role, scope } from '#api/http/guards/identity.ts';
import { type Guard, NO_FIELDS, type ReplyDoc, type Route, SMALL_BODY, type Tag } from '#api/route.ts';
import { jobRequestFaults } from '#shared/classifier/new-job.ts';
import type { JobDeps } from './deps.ts';
import { cancelOneJob, createJob, retryOneJob } from './job-commands.ts';
import { listJobErrors, listOwnJobs, showJob, summarizeQueue } from './job-queries.ts';
import { streamJob } from './stream-job.ts';

const JOBS: Tag = {
  name: 'Classifier: jobs',
  description: 'Jobs that suggest subjects, topics, difficulties and tags for questions.',
};
const JOB = { jobId: 'Id of the job' };

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
      description:
        'Creates a job that suggests values for fields of up to 2,000 questions; nothing is written to the question bank. While an equal job of the caller is open, it returns 200 with that job and `created: false`, so a repeat is safe. An actor and an organization have a limited number of open jobs.',
      tag: JOBS,
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
      errors: ['RATE_LIMITED', 'PERSON_ERASED'],
      handle: (call) => createJob(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/ai-classifier/jobs',
      operation: 'listJobs',
      summary: "List the caller's jobs",
      description: "Returns the caller's jobs of this organization, newest first, without their results.",
      tag: JOBS,
      guards: makers,
      query: 'classifier/job-list-query',
      replies: [{ status: 200, schema: 'classifier/job-list', description: 'Page of jobs, newest first' }],
      errors: [],
      handle: (call) => listOwnJobs(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/ai-classifier/jobs/:jobId',
      params: JOB,
      operation: 'readJob',
      summary: 'Get one job with its questions and its results so far',
      description:
        'Returns one job of the caller with its questions and the suggestions so far. A job of another actor or organization is 404, for an ADMIN too.',
      tag: JOBS,
      guards: makers,
      replies: one('Current state of the job'),
      errors: ['JOB_NOT_FOUND'],
      handle: (call) => showJob(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/ai-classifier/jobs/:jobId/errors',
      params: JOB,
      operation: 'listJobErrors',
      summary: 'List the questions of a job that have no suggestions, with the reasons',
      description:
        'Returns the questions of the job that have no suggestions, each with its reason, in the order of the questions.',
      tag: JOBS,
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
      params: JOB,
      operation: 'streamJob',
      summary: 'Stream one job as server-sent events until it is finished',
      description:
        'Sends the job as server-sent events: `snapshot` first, `job.updated` after each change, `heartbeat` every 15 s. The stream ends with the job, or after ten minutes; resume it with `Last-Event-ID`. 204 means that the client has seen the end. An actor has five streams in a process.',
      tag: JOBS,
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
      params: JOB,
      operation: 'cancelJob',
      summary: 'Cancel an unfinished job',
      description:
        'Ends an open job; its calls to the provider stop within half a second, and its results so far remain. A repeat is 409 `JOB_STATE_CONFLICT`, because the job has ended.',
      tag: JOBS,
      guards: makers,
      body: NO_FIELDS,
      replies: one('Cancelled job with its results so far'),
      errors: ['JOB_NOT_FOUND', 'JOB_STATE_CONFLICT'],
      handle: (call) => cancelOneJob(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/ai-classifier/jobs/:jobId/retry',
      params: JOB,
      operation: 'retryJob',
      summary: 'Retry a failed or cancelled job from the start',
      description:
        'Starts a FAILED or CANCELLED job over, under its id. Results are reset, and every question is sent to the provider and paid for again. A repeat is 409 `JOB_STATE_CONFLICT`, because the job is open.',
      tag: JOBS,
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
      description:
        'Counts the jobs of all organizations, with a sample of open jobs and the newest failures. It requires an organization like every route of this service, and does not filter by it.',
      tag: JOBS,
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
