import type { TokenUsage } from '#shared/classifier/tasks/task.ts';
import type { TaskUsageEvent } from '#shared/generated/classifier.ts';
import type { ErrorCode } from '#shared/kernel/errors.ts';
import type { CircuitPhase } from './circuit.ts';
import type { ProviderName } from './names.ts';

/** One call of a provider, successful or not: a retried call may be billed twice. Contains no prompt, answer or key. */
export interface UsageEvent extends TaskUsageEvent, TokenUsage {
  provider: ProviderName;
  /** Base URL of the provider, without credentials and query; null for the mock. */
  baseUrl: string | null;
  model: string;
  latencyMs: number;
  /** 1 = the first attempt of a task. */
  attempt: number;
  /** Wait before this attempt (ms). */
  retryWaitMs: number;
  circuit: CircuitPhase;
  /** null = no reply was received. */
  httpStatus: number | null;
  outcome: 'success' | 'failure' | 'cancelled';
  errorCode: ErrorCode | null;
  /** The provider's own id of the request, to quote to its support. */
  providerRequestId: string | null;
  promptVersion: string;
  createdAt: Date;
}
