import { identity, optionalIdentity, role, USER } from '#api/http/guards/identity.ts';
import { adminOrSender, internalSender } from '#api/http/guards/senders.ts';
import { ESSAY_BODY, LARGE_BODY, type Route, SMALL_BODY, type Tag } from '#api/route.ts';
import { answerFaults } from '#shared/attempt/answer.ts';
import { RELEASE_SENDER, releaseFaults } from '#shared/attempt/release.ts';
import type { AttemptDeps } from './deps.ts';
import { receiveHandoff, receiveRelease } from './intake.ts';
import { listOwnAttempts, readAttempt, readEvents, readResult, summarizeAttempts } from './queries.ts';
import { saveOneAnswer } from './save-answer.ts';
import { startRoutes, TAKING } from './start-routes.ts';
import { postEvent } from './submit.ts';

/** Returns the attempt service's internal `/v1` routes: attempts behind the gateway, grades and releases from services. */
export function attemptRoutes(deps: AttemptDeps): Route[] {
  return [...startRoutes(deps), ...studentRoutes(deps), ...intakeRoutes(deps)];
}

const OVERSIGHT: Tag = { name: 'Attempt: oversight', description: 'Counts of all attempts, for admins.' };
const INTAKE: Tag = {
  name: 'Attempt: grades and releases',
  description: 'Other services grade answers by hand and release results.',
};

const RECEIVER_CODES = {
  unauthorizedCode: 'ATTEMPT_INTERNAL_UNAUTHORIZED',
  unconfiguredCode: 'ATTEMPT_INTERNAL_TOKEN_NOT_CONFIGURED',
} as const;

const ATTEMPT = { attemptId: 'Id of the attempt' };
/** Texts of a student, which are stored exactly as sent. */
const TEXTS = ['/textAnswer', '/answer/textAnswer'];

/** Routes of a started attempt: its student works on it, and each reader gets what the reader may see. */
function studentRoutes(deps: AttemptDeps): Route[] {
  const student = [identity(), role('STUDENT')];
  const reader = [identity(), role()];
  const token = deps.settings.receiverToken;
  const dashboard = { senders: ['admin-service'], tokens: { 'admin-service': token }, ...RECEIVER_CODES };

  return [
    {
      method: 'GET',
      path: '/v1/student/attempts',
      operation: 'listOwnAttempts',
      summary: "List the caller's newest 100 attempts",
      description:
        'Returns the attempts of the student who calls, newest start first, without questions and answers. Scores are null while a result is hidden. A read changes nothing and can be repeated.',
      tag: TAKING,
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
      description:
        'Counts attempts, questions, answers and events over all organizations, for a dashboard. It reads an index only and changes nothing.',
      tag: OVERSIGHT,
      guards: [adminOrSender(USER, dashboard)],
      replies: [{ status: 200, schema: 'attempt/admin-summary', description: 'Counts of the data of this service' }],
      errors: [],
      handle: () => summarizeAttempts(deps),
    },
    {
      method: 'GET',
      path: '/v1/attempts/:attemptId',
      params: ATTEMPT,
      operation: 'readAttempt',
      summary: 'Get an attempt as this caller may see it',
      description:
        'Returns the attempt with its questions, answers and newest events. Its student sees no answer key, and grades only once the result is visible. Teachers of the exam and admins see all. Poll it every second or two after a 202 until `status` is `GRADED`.',
      tag: TAKING,
      guards: reader,
      replies: [{ status: 200, schema: 'attempt/attempt-detail', description: 'Attempt; hidden grades are null' }],
      errors: ['ATTEMPT_NOT_FOUND', 'FORBIDDEN'],
      handle: (call) => readAttempt(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/attempts/:attemptId/answers',
      params: ATTEMPT,
      operation: 'saveAnswer',
      summary: 'Save or replace one answer',
      description:
        'Stores one answer of an open attempt and returns the attempt. With `clientVersion` 0 the last writer wins, and a repeat saves again with the next `serverVersion`. With a version above 0, a save over a newer answer is 409 `ANSWER_VERSION_CONFLICT` with the stored answer; if that is your own, the first request had arrived. A save after the deadline submits the attempt and is refused. Send `Prefer: return=minimal`: the whole attempt of an exam with pictures has megabytes.',
      tag: TAKING,
      guards: student,
      headers: [
        {
          name: 'prefer',
          required: false,
          description: '`return=minimal` returns the saved answer alone instead of the whole attempt',
          example: 'return=minimal',
        },
      ],
      body: { schema: 'attempt/save-answer-request', maxBytes: ESSAY_BODY, anyMarks: TEXTS, moreFaults: answerFaults },
      replies: [
        { status: 200, schema: 'attempt/attempt-detail', description: 'Attempt with the saved answer' },
        {
          status: 200,
          schema: 'attempt/saved-answer',
          description: 'Saved answer, if the caller prefers `return=minimal`',
          headers: { 'Preference-Applied': '`return=minimal`, if the reply is the answer alone' },
        },
      ],
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
      path: '/v1/attempts/:attemptId/events',
      params: ATTEMPT,
      operation: 'postEvent',
      summary: 'Log an event of the client; TIMEOUT submits an open attempt',
      description:
        'Adds an event of the client to the log of the attempt. `TIMEOUT` on an open attempt submits it, and the reply is that of a submit. A repeated `TIMEOUT` is an event like any other (201), and every other repeat is logged again. An attempt takes 10,000 events.',
      tag: TAKING,
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
      params: ATTEMPT,
      operation: 'readEvents',
      summary: 'Get the whole event log of an attempt',
      description:
        'Returns every event of the attempt, in ascending order. Grades in the metadata are null while the result is hidden. The reply is streamed, because a log may be long.',
      tag: TAKING,
      guards: reader,
      replies: [{ status: 200, schema: 'attempt/attempt-event-list', description: 'Events in ascending order' }],
      errors: ['ATTEMPT_NOT_FOUND', 'FORBIDDEN'],
      handle: (call) => readEvents(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/attempts/:attemptId/result',
      params: ATTEMPT,
      operation: 'readResult',
      summary: 'Get an attempt with its score in percent',
      description:
        'Returns the attempt with `scorePercent`, its score as a percentage. The readers and what they see are those of the attempt.',
      tag: TAKING,
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
    internalSender({ senders, token: deps.settings.receiverToken, ...RECEIVER_CODES });
  return [
    {
      method: 'POST',
      path: '/v1/attempts/:attemptId/essay-grade-handoffs',
      params: ATTEMPT,
      operation: 'handOffGrade',
      summary: 'Internal: hand off a grade of the AI classifier, or of a teacher through the gateway',
      description:
        'Grades one answer by hand: a grade of the AI classifier, or that of a teacher whom the gateway names by identity headers. `sourceEventId` is the key for each attempt: a repeat returns 200 with `applied: false` and changes nothing. Another id replaces the score. 202 with `applied: null` means that the grade is stored and waits for the grading; repeat it later to learn its end.',
      tag: INTAKE,
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
      description:
        'Makes hidden results of an exam visible from the given time on, and announces them to students and parents. `payload.studentIds` limits it to these students; a later release takes the others. `sourceEventId` is the key for ever: a repeat returns 200 with counts of 0. 202 with null counts means that the release is stored and will run. A release time is set once for each attempt.',
      tag: INTAKE,
      guards: [receiver(RELEASE_SENDER)],
      body: { schema: 'attempt/results-released-request', maxBytes: LARGE_BODY, moreFaults: releaseFaults },
      replies: [
        { status: 200, schema: 'attempt/release-reply', description: 'Counts of the finished release, or of a replay' },
        { status: 202, schema: 'attempt/release-reply', description: 'Accepted release that is not finished yet' },
      ],
      errors: [],
      handle: (call) => receiveRelease(deps, call),
    },
  ];
}
