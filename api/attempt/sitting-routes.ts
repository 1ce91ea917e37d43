import { postEvent } from '#api/attempt/commands/post-event.ts';
import { saveOneAnswer } from '#api/attempt/commands/save-answer.ts';
import { submitAttempt } from '#api/attempt/commands/submit.ts';
import { listOwnAttempts } from '#api/attempt/queries/list-own.ts';
import { readAttempt, readResult } from '#api/attempt/queries/read-attempt.ts';
import { readEvents } from '#api/attempt/queries/read-events.ts';
import { summarizeAttempts } from '#api/attempt/queries/summarize.ts';
import { ESSAY_BODY, SMALL_BODY } from '#api/bodies.ts';
import { identity, role } from '#api/http/guards/identity.ts';
import type { Route } from '#api/route.ts';
import { answerFaults } from '#shared/attempt/answer.ts';
import type { AttemptDeps } from './deps.ts';

/** What students do at their attempts, and who reads of it. */
export function sittingRoutes(deps: AttemptDeps): Route[] {
  const student = [identity(), role('STUDENT')];
  const reader = [identity(), role()];

  return [
    {
      method: 'GET',
      path: '/v1/student/attempts',
      operation: 'listOwnAttempts',
      summary: "The caller's newest 100 attempts",
      guards: student,
      replies: [{ status: 200, schema: 'attempt/student-list', description: 'Newest start first' }],
      errors: [],
      handle: (call) => listOwnAttempts(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/admin/attempts/summary',
      operation: 'summarizeAttempts',
      summary: 'Counts for admin dashboards',
      guards: [identity(), role('ADMIN')],
      replies: [{ status: 200, schema: 'attempt/admin-summary', description: 'Counts of this service alone' }],
      errors: [],
      handle: () => summarizeAttempts(deps),
    },
    {
      method: 'GET',
      path: '/v1/attempts/:attemptId',
      operation: 'readAttempt',
      summary: 'The attempt as this caller may see it',
      guards: reader,
      replies: [{ status: 200, schema: 'attempt/attempt-detail', description: 'Grades are null while hidden' }],
      errors: ['ATTEMPT_NOT_FOUND', 'FORBIDDEN'],
      handle: (call) => readAttempt(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/attempts/:attemptId/answers',
      operation: 'saveAnswer',
      summary: 'Save or replace one answer',
      guards: student,
      body: { schema: 'attempt/save-answer-request', maxBytes: ESSAY_BODY, moreFaults: answerFaults },
      replies: [{ status: 200, schema: 'attempt/attempt-detail', description: 'Saved' }],
      errors: [
        'ATTEMPT_NOT_FOUND',
        'FORBIDDEN',
        'ATTEMPT_LOCKED',
        'ATTEMPT_DEADLINE_EXPIRED',
        'QUESTION_NOT_IN_ATTEMPT',
        'ANSWER_VERSION_CONFLICT',
        'ATTEMPT_TOO_LARGE',
      ],
      failureData: { ANSWER_VERSION_CONFLICT: 'attempt/answer-conflict' },
      handle: (call) => saveOneAnswer(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/attempts/:attemptId/submit',
      operation: 'submitAttempt',
      summary: 'Hand in and wait for the grade',
      guards: student,
      body: { schema: 'attempt/submit-request', maxBytes: SMALL_BODY },
      replies: [
        { status: 200, schema: 'attempt/attempt-detail', description: 'Graded' },
        { status: 202, schema: 'attempt/attempt-detail', description: 'Handed in; the grade comes later' },
      ],
      errors: ['ATTEMPT_NOT_FOUND', 'FORBIDDEN'],
      handle: (call) => submitAttempt(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/attempts/:attemptId/events',
      operation: 'postEvent',
      summary: "Log what the student's client saw; TIMEOUT hands in an open attempt",
      guards: student,
      body: { schema: 'attempt/post-event-request', maxBytes: SMALL_BODY },
      replies: [
        { status: 201, schema: 'attempt/attempt-event', description: 'Logged' },
        { status: 200, schema: 'attempt/attempt-detail', description: 'A TIMEOUT that handed in, graded' },
        {
          status: 202,
          schema: 'attempt/attempt-detail',
          description: 'A TIMEOUT that handed in; the grade comes later',
        },
      ],
      errors: ['ATTEMPT_NOT_FOUND', 'FORBIDDEN', 'EVENT_LIMIT_REACHED'],
      handle: (call) => postEvent(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/attempts/:attemptId/events',
      operation: 'readEvents',
      summary: 'The whole event log, oldest first',
      guards: reader,
      replies: [{ status: 200, schema: 'attempt/attempt-event-list', description: 'Ascending' }],
      errors: ['ATTEMPT_NOT_FOUND', 'FORBIDDEN'],
      handle: (call) => readEvents(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/attempts/:attemptId/result',
      operation: 'readResult',
      summary: 'The attempt with its score in percent',
      guards: reader,
      replies: [{ status: 200, schema: 'attempt/result-reply', description: 'Percent is null while hidden' }],
      errors: ['ATTEMPT_NOT_FOUND', 'FORBIDDEN'],
      handle: (call) => readResult(deps, call),
    },
  ];
}
