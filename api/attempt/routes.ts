import { idempotencyKey } from '#api/http/guards/idempotency-key.ts';
import { identity, optionalIdentity, role } from '#api/http/guards/identity.ts';
import { internalSender, trustedStart } from '#api/http/guards/senders.ts';
import { ESSAY_BODY, LARGE_BODY, type Route, SMALL_BODY } from '#api/route.ts';
import { answerFaults } from '#shared/attempt/answer.ts';
import { paperFaults } from '#shared/attempt/copy-paper.ts';
import { RELEASE_SENDER, releaseFaults } from '#shared/attempt/release.ts';
import { COURSE_SERVICE } from '#shared/attempt/start-rules.ts';
import type { ErrorCode } from '#shared/kernel/errors.ts';
import type { AttemptDeps } from './deps.ts';
import { receiveHandoff, receiveRelease } from './intake.ts';
import { listOwnAttempts, readAttempt, readEvents, readResult, summarizeAttempts } from './queries.ts';
import { saveOneAnswer } from './save-answer.ts';
import { startAttempt } from './start.ts';
import { postEvent, submitAttempt } from './submit.ts';

/** Returns the attempt service's internal `/v1` routes: attempts behind the gateway, grades and releases from services. */
export function attemptRoutes(deps: AttemptDeps): Route[] {
  return [...startRoutes(deps), ...studentRoutes(deps), ...intakeRoutes(deps)];
}

const START_ERRORS: readonly ErrorCode[] = [
  'EXAM_ID_MISMATCH',
  'COURSE_CONTEXT_UNTRUSTED',
  'COURSE_CONTEXT_INVALID',
  'EXAM_NOT_PUBLISHED',
  'EXAM_OFFLINE',
  'EXAM_NOT_OPEN',
  'EXAM_CLOSED',
  'EXAM_PASSWORD_REQUIRED',
  'EXAM_ACCESS_DENIED',
  'ACCESS_LINK_EXPIRED',
  'ACCESS_LINK_FULL',
  'ATTEMPT_LIMIT_REACHED',
  'ATTEMPT_ALREADY_OPEN',
  'ASSIGNMENT_OVERDUE',
  'PAYLOAD_TOO_LARGE',
];

const REPLAYED = { 'Idempotency-Replayed': 'true when the idempotency key was known, else false' };

/** Starts an attempt: one route under two paths. Older clients use the second path. */
function startRoutes(deps: AttemptDeps): Route[] {
  const start = {
    method: 'POST',
    summary: 'Start an attempt, or get the one that this key or student already has',
    guards: [trustedStart({ token: deps.settings.receiverToken }), identity(), role('STUDENT'), idempotencyKey()],
    headers: [
      {
        name: 'x-course-attempt-context-source',
        required: false,
        description: 'Who resolved courseAttemptContext; required beside one',
        example: COURSE_SERVICE,
      },
    ],
    body: { schema: 'attempt/start-request', maxBytes: LARGE_BODY, moreFaults: paperFaults },
    replies: [
      { status: 201, schema: 'attempt/start-reply', description: 'Created', headers: REPLAYED },
      {
        status: 200,
        schema: 'attempt/start-reply',
        description: 'The attempt that was there already',
        headers: REPLAYED,
      },
    ],
    errors: START_ERRORS,
    failureData: { ATTEMPT_ALREADY_OPEN: 'attempt/open-attempt' },
    handle: (call) => startAttempt(deps, call),
  } satisfies Partial<Route>;

  return [
    { ...start, path: '/v1/exams/:examId/attempts', operation: 'startAttempt' },
    { ...start, path: '/v1/exams/:examId/start', operation: 'startAttemptCompat' },
  ];
}

/** Routes of a started attempt: its student works on it, and each reader gets what the reader may see. */
function studentRoutes(deps: AttemptDeps): Route[] {
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
      summary: 'Submit the attempt and wait for the grade',
      guards: student,
      body: { schema: 'attempt/submit-request', maxBytes: SMALL_BODY },
      replies: [
        { status: 200, schema: 'attempt/attempt-detail', description: 'Graded' },
        { status: 202, schema: 'attempt/attempt-detail', description: 'Submitted; the grade comes later' },
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
        { status: 200, schema: 'attempt/attempt-detail', description: 'A TIMEOUT that submitted the attempt, graded' },
        {
          status: 202,
          schema: 'attempt/attempt-detail',
          description: 'A TIMEOUT that submitted the attempt; the grade comes later',
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
      replies: [
        {
          status: 200,
          schema: 'attempt/result-reply',
          description: 'Percent is null while hidden, and of practice alone',
        },
      ],
      errors: ['ATTEMPT_NOT_FOUND', 'FORBIDDEN'],
      handle: (call) => readResult(deps, call),
    },
  ];
}

/** Routes for other services. Each service sends its own name and the token of this service. */
function intakeRoutes(deps: AttemptDeps): Route[] {
  const receiver = (...senders: string[]) =>
    internalSender({
      senders,
      token: deps.settings.receiverToken,
      unauthorizedCode: 'ATTEMPT_INTERNAL_UNAUTHORIZED',
      unconfiguredCode: 'ATTEMPT_INTERNAL_TOKEN_NOT_CONFIGURED',
    });
  return [
    {
      method: 'POST',
      path: '/v1/attempts/:attemptId/essay-grade-handoffs',
      operation: 'handOffGrade',
      summary: 'Internal: a grade by hand, from the AI classifier or from a teacher through the gateway',
      guards: [receiver(...deps.settings.handoffSenders), optionalIdentity('TEACHER', 'ADMIN')],
      body: { schema: 'attempt/essay-grade-handoff-request', maxBytes: SMALL_BODY },
      replies: [
        { status: 200, schema: 'attempt/handoff-reply', description: 'Applied, or a replay' },
        { status: 202, schema: 'attempt/handoff-reply', description: 'Not applied yet' },
      ],
      errors: [
        'ATTEMPT_NOT_FOUND',
        'FORBIDDEN',
        'ATTEMPT_NOT_SUBMITTED',
        'QUESTION_NOT_IN_ATTEMPT',
        'QUESTION_NOT_MANUAL',
        'ANSWER_NOT_FOUND',
        'SCORE_OUT_OF_RANGE',
      ],
      handle: (call) => receiveHandoff(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/events/exam-results-released',
      operation: 'releaseResults',
      summary: "Internal: an exam's results are out, from the exam service",
      guards: [receiver(RELEASE_SENDER)],
      body: { schema: 'attempt/results-released-request', maxBytes: SMALL_BODY, moreFaults: releaseFaults },
      replies: [
        { status: 200, schema: 'attempt/release-reply', description: 'Done, or a replay' },
        { status: 202, schema: 'attempt/release-reply', description: 'Not done yet' },
      ],
      errors: [],
      handle: (call) => receiveRelease(deps, call),
    },
  ];
}
