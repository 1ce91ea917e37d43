import { handOffGrade } from '#api/attempt/commands/hand-off-grade.ts';
import { releaseResults } from '#api/attempt/commands/release-results.ts';
import { SMALL_BODY } from '#api/bodies.ts';
import { internalSender } from '#api/http/guards/senders.ts';
import type { Route } from '#api/route.ts';
import { HANDOFF_SENDER } from '#shared/attempt/handoff.ts';
import { RELEASE_SENDER, releaseFaults } from '#shared/attempt/release.ts';
import type { AttemptDeps } from './deps.ts';

/** What other services bring, each under its own name and our token. */
export function intakeRoutes(deps: AttemptDeps): Route[] {
  const receiver = (sender: string) =>
    internalSender({
      sender,
      token: deps.settings.receiverToken,
      unauthorizedCode: 'ATTEMPT_INTERNAL_UNAUTHORIZED',
      unconfiguredCode: 'ATTEMPT_INTERNAL_TOKEN_NOT_CONFIGURED',
    });
  return [
    {
      method: 'POST',
      path: '/v1/attempts/:attemptId/essay-grade-handoffs',
      operation: 'handOffGrade',
      summary: 'Internal: a grade by hand, from the AI classifier',
      guards: [receiver(HANDOFF_SENDER)],
      body: { schema: 'attempt/essay-grade-handoff-request', maxBytes: SMALL_BODY },
      replies: [
        { status: 200, schema: 'attempt/handoff-reply', description: 'Applied, or a replay' },
        { status: 202, schema: 'attempt/handoff-reply', description: 'Not applied yet' },
      ],
      errors: [
        'ATTEMPT_NOT_FOUND',
        'ATTEMPT_NOT_SUBMITTED',
        'QUESTION_NOT_IN_ATTEMPT',
        'QUESTION_NOT_MANUAL',
        'ANSWER_NOT_FOUND',
        'SCORE_OUT_OF_RANGE',
      ],
      handle: (call) => handOffGrade(deps, call),
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
      handle: (call) => releaseResults(deps, call),
    },
  ];
}
