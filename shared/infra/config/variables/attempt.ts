import type { Variable } from '#infra/config/variable.ts';

const GROUP = 'Attempts';

/** The attempt service. */
export const ATTEMPTS = {
  ATTEMPT_GRADING_WAIT_MS: {
    group: GROUP,
    kind: 'integer',
    default: 10_000,
    min: 0,
    max: 60_000,
    description: 'How long submit, handoff and release wait for the worker before they answer 202.',
  },
  ATTEMPT_OVERDUE_GRACE_SECONDS: {
    group: GROUP,
    kind: 'integer',
    default: 300,
    min: 0,
    max: 604_800,
    description: 'How long after its deadline an attempt nobody submits is submitted as TIMEOUT.',
  },
  ATTEMPT_OUTBOX_MAX_ATTEMPTS: {
    group: GROUP,
    kind: 'integer',
    default: 30,
    min: 1,
    max: 1_000,
    description: 'Deliveries of one notice that may fail before it is DEAD.',
  },
  ATTEMPT_OUTBOX_RETRY_BASE_MS: {
    group: GROUP,
    kind: 'integer',
    default: 5_000,
    min: 1,
    max: 3_600_000,
    description: 'First wait between two deliveries of a notice; doubles, at most one hour.',
  },
  START_BUDGET_MS: {
    group: GROUP,
    kind: 'integer',
    default: 5_000,
    min: 100,
    max: 60_000,
    description: 'Total bound of the transaction of a start, its retries included.',
  },
} as const satisfies Record<string, Variable>;
