import { startAttempt } from '#api/attempt/commands/start.ts';
import { LARGE_BODY } from '#api/bodies.ts';
import { idempotencyKey } from '#api/http/guards/idempotency-key.ts';
import { identity, role } from '#api/http/guards/identity.ts';
import { trustedStart } from '#api/http/guards/senders.ts';
import type { Route } from '#api/route.ts';
import { paperFaults } from '#shared/attempt/copy-paper.ts';
import { COURSE_SERVICE } from '#shared/attempt/start-rules.ts';
import type { ErrorCode } from '#shared/kernel/errors.ts';
import type { AttemptDeps } from './deps.ts';

const REPLAYED = { 'Idempotency-Replayed': 'true when the idempotency key was known, else false' };

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

/** How an attempt begins: one route, and the path that older clients know. */
export function startRoutes(deps: AttemptDeps): Route[] {
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
