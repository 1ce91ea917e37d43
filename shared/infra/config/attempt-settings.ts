import { firstToken } from './first-token.ts';
import type { VariableReader } from './variable-reader.ts';

export interface AttemptSettings {
  /** Demanded by start, release and handoff. */
  receiverToken: string | undefined;
  gradingWaitMs: number;
  overdueGraceSeconds: number;
  outbox: { maxAttempts: number; retryBaseMs: number };
  startBudgetMs: number;
}

export function readAttempt(from: VariableReader): AttemptSettings {
  return {
    receiverToken: firstToken(from, ['ATTEMPT_INTERNAL_SERVICE_TOKEN', 'INTERNAL_SERVICE_TOKEN']),
    gradingWaitMs: from.integer('ATTEMPT_GRADING_WAIT_MS'),
    overdueGraceSeconds: from.integer('ATTEMPT_OVERDUE_GRACE_SECONDS'),
    outbox: {
      maxAttempts: from.integer('ATTEMPT_OUTBOX_MAX_ATTEMPTS'),
      retryBaseMs: from.integer('ATTEMPT_OUTBOX_RETRY_BASE_MS'),
    },
    startBudgetMs: from.integer('START_BUDGET_MS'),
  };
}
