import type { AttemptDeps } from '#api/attempt/deps.ts';
import { TAKING } from '#api/attempt/start-routes.ts';
import { idempotencyKey } from '#api/http/guards/idempotency-key.ts';
import { identity, role } from '#api/http/guards/identity.ts';
import { LARGE_BODY, type Route, SMALL_BODY, type Tag } from '#api/route.ts';
import { readExamAct } from './acts.ts';
import { reopenAttempt, restoreAttempt, voidAttempt } from './attempt-acts.ts';
import { EXAMINER } from './examiner.ts';
import { giveExtraTime, listExtraTime } from './extra-time.ts';
import { regradeRoutes } from './regrade-routes.ts';
import { submitAll, submitOrHandIn } from './submit.ts';

export const EXAM_ROOM: Tag = {
  name: 'Attempt: exam room',
  description: 'Teachers and proctors act on the attempts of their exams. An admin may do so with all attempts.',
};

const EXAM = { examId: 'Id of the exam' };
const ATTEMPT = { attemptId: 'Id of the attempt' };
/** A reply to an act that its worker has not ended in time. */
const LATE = {
  status: 202,
  schema: 'exam-room/exam-act-reply',
  description: 'Act that is not done yet',
  headers: { Location: 'Path of the act, to be read again' },
} as const;

/** Returns the routes of examiners: teachers of the copied scope, and admins. */
export function examRoomRoutes(deps: AttemptDeps): Route[] {
  return [...actRoutes(deps), ...regradeRoutes(deps, { tag: EXAM_ROOM, late: LATE })];
}

/** Acts on attempts. Each needs an idempotency key and a reason. */
function actRoutes(deps: AttemptDeps): Route[] {
  const acting = [...EXAMINER, idempotencyKey()];
  return [
    {
      method: 'POST',
      path: '/v1/attempts/:attemptId/submit',
      params: ATTEMPT,
      operation: 'submitAttempt',
      summary: 'Submit the attempt, as its student or examiner, and wait for the grade',
      description:
        'Submits the attempt and waits up to ATTEMPT_GRADING_WAIT_MS (10 s) for its grade. A repeat waits for the same grading and returns the graded attempt: an attempt is graded once. After 202 the submit is stored and the grade is late. Then read the attempt until `status` is `GRADED`. An examiner sends `source: TEACHER`, a `reason` and an idempotency key.',
      tag: TAKING,
      guards: [identity(), role('STUDENT', 'TEACHER', 'ADMIN'), idempotencyKey({ required: false })],
      body: { schema: 'attempt/submit-request', maxBytes: SMALL_BODY },
      replies: [
        { status: 200, schema: 'attempt/attempt-detail', description: 'Graded attempt' },
        { status: 202, schema: 'attempt/attempt-detail', description: 'Submitted attempt that is not graded yet' },
      ],
      errors: ['ATTEMPT_NOT_FOUND', 'FORBIDDEN', 'IDEMPOTENCY_KEY_REQUIRED'],
      handle: (call) => submitOrHandIn(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/exams/:examId/extra-time',
      params: EXAM,
      operation: 'giveExtraTime',
      summary: 'Give more time to open attempts, and to named students who start later',
      description:
        'Moves the deadline of open attempts of the exam by minutes, past its close and due time too, and counts them in `updated`. A deadline that has passed moves only if the new one is ahead. Attempts that these students start later get the minutes at their start; `remembered` counts named students who are not sitting. Grants add up. A repeat with the same key returns the first result. After 202 read the act.',
      tag: EXAM_ROOM,
      guards: acting,
      body: { schema: 'exam-room/extra-time-request', maxBytes: LARGE_BODY },
      replies: [
        { status: 200, schema: 'exam-room/extra-time-reply', description: 'Changes that the grant has made' },
        LATE,
      ],
      errors: ['EXAM_NOT_FOUND'],
      handle: (call) => giveExtraTime(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/exams/:examId/extra-time',
      params: EXAM,
      operation: 'listExtraTime',
      summary: 'List the extra time that was given at an exam',
      description:
        'Returns the grants of the exam, newest first, with the attempts that each has changed so far. A teacher sees the own grants and those for all. A grant of another examiner names only students whose attempts the teacher examines; without such a student it is left out. An admin sees all. The reply is streamed.',
      tag: EXAM_ROOM,
      guards: EXAMINER,
      replies: [{ status: 200, schema: 'exam-room/extra-time-list', description: 'Grants, newest first' }],
      errors: ['EXAM_NOT_FOUND'],
      handle: (call) => listExtraTime(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/exams/:examId/submit-all',
      params: EXAM,
      operation: 'submitAll',
      summary: 'Submit the open attempts of an exam',
      description:
        'Submits every open attempt of the exam, or those of the named students, as of now, and counts them in `submitted`. They are graded like other submits. A repeat with the same key returns the first result. After 202 read the act.',
      tag: EXAM_ROOM,
      guards: acting,
      body: { schema: 'exam-room/submit-all-request', maxBytes: LARGE_BODY },
      replies: [
        { status: 200, schema: 'exam-room/submit-all-reply', description: 'Number of submitted attempts' },
        LATE,
      ],
      errors: ['EXAM_NOT_FOUND'],
      handle: (call) => submitAll(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/attempts/:attemptId/reopen',
      params: ATTEMPT,
      operation: 'reopenAttempt',
      summary: 'Reopen a submitted attempt for some minutes',
      description:
        'Opens the attempt again until `minutes` from now. Answers stay; totals and scores are null until the next submit, and the old grade is in `scoreHistory`. A grade by hand stands at the next submit if its answer has not changed. Notices of the old grade that are not delivered are withdrawn. A repeat with the same key returns the attempt as it now is. After 202 read the act.',
      tag: EXAM_ROOM,
      guards: acting,
      body: { schema: 'exam-room/reopen-request', maxBytes: SMALL_BODY },
      replies: [{ status: 200, schema: 'attempt/attempt-detail', description: 'Attempt after the act' }, LATE],
      errors: ['ATTEMPT_NOT_FOUND', 'FORBIDDEN', 'ATTEMPT_ALREADY_OPEN', 'ATTEMPT_NOT_SUBMITTED', 'ATTEMPT_VOIDED'],
      failureData: { ATTEMPT_ALREADY_OPEN: 'attempt/open-attempt' },
      handle: (call) => reopenAttempt(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/attempts/:attemptId/void',
      params: ATTEMPT,
      operation: 'voidAttempt',
      summary: 'Void an attempt, so that it counts no longer',
      description:
        'Makes the attempt count for no limit, seat or release; an open one is submitted first. Its student sees no result. Events, answers and grade stay for examiners. An attempt that is voided already is returned unchanged. After 202 read the act.',
      tag: EXAM_ROOM,
      guards: acting,
      body: { schema: 'exam-room/reasoned-request', maxBytes: SMALL_BODY },
      replies: [{ status: 200, schema: 'attempt/attempt-detail', description: 'Attempt after the act' }, LATE],
      errors: ['ATTEMPT_NOT_FOUND', 'FORBIDDEN'],
      handle: (call) => voidAttempt(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/attempts/:attemptId/restore',
      params: ATTEMPT,
      operation: 'restoreAttempt',
      summary: 'Restore a voided attempt',
      description:
        'Makes a voided attempt count again, with its answers and its grade. A visible result that was never announced, or a regrade of it, is announced. It is refused if the student has used the limit of attempts, or others the seats of the link, meanwhile. A repeat with the same key returns the attempt as it now is. After 202 read the act.',
      tag: EXAM_ROOM,
      guards: acting,
      body: { schema: 'exam-room/reasoned-request', maxBytes: SMALL_BODY },
      replies: [{ status: 200, schema: 'attempt/attempt-detail', description: 'Attempt after the act' }, LATE],
      errors: ['ATTEMPT_NOT_FOUND', 'FORBIDDEN', 'ATTEMPT_NOT_VOIDED', 'ATTEMPT_LIMIT_REACHED', 'ACCESS_LINK_FULL'],
      handle: (call) => restoreAttempt(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/exam-acts/:actId',
      params: { actId: 'Id of the act, from the `Location` of its reply' },
      operation: 'readExamAct',
      summary: 'Get an act of an examiner and how it has ended',
      description:
        'Returns the act to the examiner who made it, and to admins; an act on a regrade to each examiner who may apply the regrade. Poll it every second or two after a 202 until `state` is no longer `RUNNING`.',
      tag: EXAM_ROOM,
      guards: EXAMINER,
      replies: [{ status: 200, schema: 'exam-room/exam-act-reply', description: 'Act with its result or its refusal' }],
      errors: ['EXAM_ACT_NOT_FOUND'],
      handle: (call) => readExamAct(deps, call),
    },
  ];
}
