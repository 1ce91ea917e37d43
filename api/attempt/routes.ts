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
  'PERSON_ERASED',
  'ATTEMPT_ALREADY_OPEN',
  'ASSIGNMENT_OVERDUE',
  'PAYLOAD_TOO_LARGE',
];

const REPLAYED = { 'Idempotency-Replayed': 'true if the idempotency key was used before, otherwise false' };

/** Starts an attempt: one route under two paths. Older clients use the second path. */
function startRoutes(deps: AttemptDeps): Route[] {
  const start = {
    method: 'POST',
    summary: 'Start an attempt, or get the existing one of this key or student',
    guards: [trustedStart({ token: deps.settings.receiverToken }), identity(), role('STUDENT'), idempotencyKey()],
    headers: [
      {
        name: 'x-course-attempt-context-source',
        required: false,
        description: 'Service that resolved `courseAttemptContext`; required with that field',
        example: COURSE_SERVICE,
      },
    ],
    body: { schema: 'attempt/start-request', maxBytes: LARGE_BODY, moreFaults: paperFaults },
    replies: [
      { status: 201, schema: 'attempt/start-reply', description: 'New attempt', headers: REPLAYED },
      {
        status: 200,
        schema: 'attempt/start-reply',
        description: 'Existing attempt of this key or student',
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
      summary: "List the caller's newest 100 attempts",
      guards: student,
      replies: [{ status: 200, schema: 'attempt/student-list', description: 'Attempts, newest start first' }],
      errors: [],
      handle: (call) => listOwnAttempts(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/admin/attempts/summary',
      operation: 'summarizeAttempts',
      summary: 'Summarize attempts for admin dashboards',
      guards: [identity(), role('ADMIN')],
      replies: [{ status: 200, schema: 'attempt/admin-summary', description: 'Counts of the data of this service' }],
      errors: [],
      handle: () => summarizeAttempts(deps),
    },
    {
      method: 'GET',
      path: '/v1/attempts/:attemptId',
      operation: 'readAttempt',
      summary: 'Get an attempt as this caller may see it',
      guards: reader,
      replies: [{ status: 200, schema: 'attempt/attempt-detail', description: 'Attempt; hidden grades are null' }],
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
      replies: [{ status: 200, schema: 'attempt/attempt-detail', description: 'Attempt with the saved answer' }],
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
        { status: 200, schema: 'attempt/attempt-detail', description: 'Graded attempt' },
        { status: 202, schema: 'attempt/attempt-detail', description: 'Submitted attempt that is not graded yet' },
      ],
      errors: ['ATTEMPT_NOT_FOUND', 'FORBIDDEN'],
      handle: (call) => submitAttempt(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/attempts/:attemptId/events',
      operation: 'postEvent',
      summary: 'Log an event of the client; TIMEOUT submits an open attempt',
      guards: student,
      body: { schema: 'attempt/post-event-request', maxBytes: SMALL_BODY },
      replies: [
        { status: 201, schema: 'attempt/attempt-event', description: 'Logged event' },
        { status: 200, schema: 'attempt/attempt-detail', description: 'Graded attempt, submitted by a TIMEOUT' },
        {
          status: 202,
          schema: 'attempt/attempt-detail',
          description: 'Attempt that a TIMEOUT submitted and that is not graded yet',
        },
      ],
      errors: ['ATTEMPT_NOT_FOUND', 'FORBIDDEN', 'EVENT_LIMIT_REACHED'],
      handle: (call) => postEvent(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/attempts/:attemptId/events',
      operation: 'readEvents',
      summary: 'Get the whole event log of an attempt',
      guards: reader,
      replies: [{ status: 200, schema: 'attempt/attempt-event-list', description: 'Events in ascending order' }],
      errors: ['ATTEMPT_NOT_FOUND', 'FORBIDDEN'],
      handle: (call) => readEvents(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/attempts/:attemptId/result',
      operation: 'readResult',
      summary: 'Get an attempt with its score in percent',
      guards: reader,
      replies: [
        {
          status: 200,
          schema: 'attempt/result-reply',
          description: 'Attempt and percentage; null while hidden, or if every question has 0 points',
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
      summary: 'Internal: hand off a grade of the AI classifier, or of a teacher through the gateway',
      guards: [receiver(...deps.settings.handoffSenders), optionalIdentity('TEACHER', 'ADMIN')],
      body: { schema: 'attempt/essay-grade-handoff-request', maxBytes: SMALL_BODY },
      replies: [
        { status: 200, schema: 'attempt/handoff-reply', description: 'Applied grade, or a replay' },
        { status: 202, schema: 'attempt/handoff-reply', description: 'Accepted grade that is not applied yet' },
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
      summary: "Internal: release an exam's results by an event of the exam service",
      guards: [receiver(RELEASE_SENDER)],
      body: { schema: 'attempt/results-released-request', maxBytes: SMALL_BODY, moreFaults: releaseFaults },
      replies: [
        { status: 200, schema: 'attempt/release-reply', description: 'Counts of the finished release, or of a replay' },
        { status: 202, schema: 'attempt/release-reply', description: 'Accepted release that is not finished yet' },
      ],
      errors: [],
      handle: (call) => receiveRelease(deps, call),
    },
  ];
}
