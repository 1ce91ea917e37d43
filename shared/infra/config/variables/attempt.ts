import { flag, inGroup, integer, textOf } from '#infra/config/rows.ts';

/** The attempt service. */
export const ATTEMPTS = inGroup('Attempts', {
  ATTEMPT_GRADING_WAIT_MS: integer(
    'attempt.gradingWaitMs',
    10_000,
    [0, 60_000],
    'How long submit, handoff and release wait for the worker before they answer 202.',
  ),
  ATTEMPT_HANDOFF_SENDERS: textOf(
    'names',
    'attempt.handoffSenders',
    'ai-classifier-service,api-gateway',
    'Services that may hand off a grade, each with the receiver token.',
  ),
  ATTEMPT_OVERDUE_SWEEP_ENABLED: flag(
    'attempt.overdueSweepEnabled',
    '1',
    '0 = no sweep: an overdue attempt stays open until its student submits it or saves.',
  ),
  ATTEMPT_OVERDUE_GRACE_SECONDS: integer(
    'attempt.overdueGraceSeconds',
    300,
    [0, 604_800],
    'Time after its deadline until an open attempt is submitted as TIMEOUT.',
  ),
  ATTEMPT_OUTBOX_MAX_ATTEMPTS: integer(
    'attempt.outbox.maxAttempts',
    30,
    [1, 1_000],
    'Delivery attempts of one notice before it is DEAD.',
  ),
  ATTEMPT_OUTBOX_RETRY_BASE_MS: integer(
    'attempt.outbox.retryBaseMs',
    5_000,
    [1, 3_600_000],
    'First wait between two delivery attempts of a notice; doubles, at most one hour.',
  ),
});
