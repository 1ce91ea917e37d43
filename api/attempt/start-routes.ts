import { idempotencyKey } from '#api/http/guards/idempotency-key.ts';
import { identity, role } from '#api/http/guards/identity.ts';
import { trustedStart } from '#api/http/guards/senders.ts';
import { LARGE_BODY, type Route, type Tag } from '#api/route.ts';
import { paperFaults } from '#shared/attempt/copy-paper.ts';
import { COURSE_SERVICE } from '#shared/attempt/start-rules.ts';
import type { ErrorCode } from '#shared/kernel/errors.ts';
import type { AttemptDeps } from './deps.ts';
import { startAttempt } from './start.ts';

export const TAKING: Tag = {
  name: 'Attempt: taking an exam',
  description:
    'A student starts, answers and submits an attempt and reads its result. Teachers of the exam and admins read too.',
};
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

const EXAM = { examId: 'Id of the exam; must equal `exam.id` of the body' };
const REPLAYED = { 'Idempotency-Replayed': 'true if the idempotency key was used before, otherwise false' };

/** Starts an attempt: one route under two paths. Older clients use the second path. */
export function startRoutes(deps: AttemptDeps): Route[] {
  const start = {
    method: 'POST',
    summary: 'Start an attempt, or get the existing one of this key or student',
    description:
      'Creates an attempt of the exam for the student, with a copy of the exam, its policy and its paper. Only the gateway calls it, with a body that the exam service has resolved. The idempotency key belongs to the exam and the student for ever: a repeat with it returns 200 with the attempt as it now is, `created: false` and `Idempotency-Replayed: true`. With a new key while an attempt is open, it returns that attempt. Unknown members are 400 at the top of the body, and dropped in `exam`, `access`, `questions` and `courseAttemptContext`. A body may have 8 MiB.',
    tag: TAKING,
    guards: [trustedStart({ token: deps.settings.receiverToken }), identity(), role('STUDENT'), idempotencyKey()],
    headers: [
      {
        name: 'x-course-attempt-context-source',
        required: false,
        description: 'Service that resolved `courseAttemptContext`; required with that field',
        example: COURSE_SERVICE,
      },
    ],
    body: { schema: 'attempt/start-request', maxBytes: LARGE_BODY, moreFaults: paperFaults, repeated: 'questions' },
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
    { ...start, params: EXAM, path: '/v1/exams/:examId/attempts', operation: 'startAttempt' },
    { ...start, params: EXAM, path: '/v1/exams/:examId/start', operation: 'startAttemptCompat' },
  ];
}
