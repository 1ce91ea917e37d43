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
  ATTEMPT_HANDOFF_SENDERS: {
    group: GROUP,
    kind: 'names',
    default: 'ai-classifier-service,api-gateway',
    description: 'Services that may hand off a grade, each with the receiver token.',
  },
  ATTEMPT_OVERDUE_SWEEP_ENABLED: {
    group: GROUP,
    kind: 'word',
    default: '1',
    words: ['0', '1'],
    description: '0 = no sweep: an overdue attempt stays open until its student submits it or saves.',
  },
  ATTEMPT_OVERDUE_GRACE_SECONDS: {
    group: GROUP,
    kind: 'integer',
    default: 300,
    min: 0,
    max: 604_800,
    description: 'Time after its deadline until an open attempt is submitted as TIMEOUT.',
  },
  ATTEMPT_OUTBOX_MAX_ATTEMPTS: {
    group: GROUP,
    kind: 'integer',
    default: 30,
    min: 1,
    max: 1_000,
    description: 'Delivery attempts of one notice before it is DEAD.',
  },
  ATTEMPT_OUTBOX_RETRY_BASE_MS: {
    group: GROUP,
    kind: 'integer',
    default: 5_000,
    min: 1,
    max: 3_600_000,
    description: 'First wait between two delivery attempts of a notice; doubles, at most one hour.',
  },
  START_BUDGET_MS: {
    group: GROUP,
    kind: 'integer',
    default: 5_000,
    min: 100,
    max: 60_000,
    description: 'Time limit of the transaction of a start, retries included.',
  },
} as const satisfies Record<string, Variable>;
