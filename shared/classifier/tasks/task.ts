import type { ErrorCode, FaultDetail } from '#shared/kernel/errors.ts';
import type { FailureCode } from '#shared/kernel/failure.ts';

export const TASK_KINDS = ['classify', 'generate', 'explain', 'grade'] as const;
export type TaskKind = (typeof TASK_KINDS)[number];

/** A task for a model. Text that users wrote is in `data` only, never in the instructions. */
export interface ModelTask {
  kind: TaskKind;
  /** Our own text: the work to do and its rules. */
  instructions: string;
  /** The material as received: question texts, answers, ids. Sent to the model as delimited JSON. */
  data: unknown;
  /** Full JSON Schema 2020-12 of the answer; each wire sends the part that its provider supports. */
  schema: Readonly<Record<string, unknown>>;
  /** Returns the faults of an answer that fits the schema but makes no sense, such as two equal options. Absent: every one makes sense. */
  senseFaults?(json: unknown): FaultDetail[];
  /** The list of the answer whose items are useful without the others. If some are unfit even after the repair, the others are the answer. */
  list?: string;
  /** Identifies the wording of the instructions in usage events. */
  promptVersion: string;
}

/** Tokens as the provider counted them; null = the provider sent no count, which differs from 0. */
export interface TokenUsage {
  inputTokens: number | null;
  outputTokens: number | null;
}

/** A usable answer: JSON that passed the task's schema. */
export interface ModelAnswer {
  json: unknown;
  /** Sums over all calls that the task has cost, failed ones too. */
  usage: TokenUsage;
  provider: string;
  model: string;
}

/**
 * Reason why there is no answer. `refused`: this task cannot succeed (4xx, or still invalid after one repair). `passing`: a later
 * call may succeed (network, 408, 429, 5xx, timeouts); our retries are spent. `open`: the provider was not called, because its
 * circuit is open or it requested a pause.
 */
export type FailureNature = 'refused' | 'passing' | 'open';

/** @see FailureNature */
export class ProviderFailure extends Error {
  readonly code: Extract<ErrorCode, `AI_PROVIDER_${string}`>;
  readonly nature: FailureNature;
  /** Minimum wait before the next call (ms), or null if unknown. */
  readonly retryAfterMs: number | null;
  readonly failure: FailureCode | null;

  constructor(
    code: Extract<ErrorCode, `AI_PROVIDER_${string}`>,
    nature: FailureNature,
    options: { message: string; retryAfterMs?: number | null; cause?: unknown },
  ) {
    super(options.message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'ProviderFailure';
    this.code = code;
    this.nature = nature;
    this.failure = nature === 'open' ? 'CIRCUIT_OPEN' : null;
    this.retryAfterMs = options.retryAfterMs ?? null;
  }
}
