import type { AskedFor, TokenUsage } from '#shared/classifier/tasks/task.ts';
import type { ErrorCode } from '#shared/kernel/errors.ts';
import type { CircuitPhase } from './circuit.ts';
import type { ProviderName } from './names.ts';

/** One attempt at a provider, also one that failed: a retried call may well be billed twice. Holds no prompt, answer or key. */
export interface UsageEvent extends AskedFor, TokenUsage {
  provider: ProviderName;
  /** Origin only; null for the mock. */
  baseUrl: string | null;
  model: string;
  latencyMs: number;
  /** 1 = the first attempt of an ask. */
  attempt: number;
  /** The wait before this attempt (ms). */
  retryWaitMs: number;
  circuit: CircuitPhase;
  /** null = no answer came. */
  httpStatus: number | null;
  outcome: 'success' | 'failure' | 'cancelled';
  errorCode: ErrorCode | null;
  /** The provider's own name of the request, for a word with its support. */
  providerRequestId: string | null;
  promptVersion: string;
  createdAt: Date;
}
