import type { ErrorCode } from '#shared/kernel/errors.ts';

export const TASK_KINDS = ['classify', 'generate', 'explain', 'grade'] as const;
export type TaskKind = (typeof TASK_KINDS)[number];

/** What a model is asked. Whatever users wrote stands in `data`, never among the instructions. */
export interface ModelTask {
  kind: TaskKind;
  /** Ours alone: what is to be done and how. */
  instructions: string;
  /** What it is to be done with, as it came: question texts, answers, ids. Goes to the model as delimited JSON. */
  data: unknown;
  /** JSON Schema 2020-12 of the answer, the full one; each wire sends what its provider understands of it. */
  schema: Readonly<Record<string, unknown>>;
  /** Names the instructions' wording in usage events. */
  promptVersion: string;
}

/** Tokens as the provider counted them; null = it did not say, which is not 0. */
export interface TokenUsage {
  inputTokens: number | null;
  outputTokens: number | null;
}

/** A usable answer: JSON that has passed the task's schema. */
export interface ModelAnswer {
  json: unknown;
  usage: TokenUsage;
  provider: string;
  model: string;
}

/** What a usage event is told of an ask, beside what the call itself knows. */
export interface AskedFor {
  /** `question-classification`, `question-generation`, `question-solution`, `essay-grade`. */
  operation: string;
  organizationId: string;
  actorId: string;
  requestId: string | null;
  jobId: string | null;
  batchIndex: number | null;
}

/**
 * Why there is no answer. `refused`: this very task will not succeed (4xx, no valid answer after one repair). `passing`: another time it
 * may (network, 408, 429, 5xx, timeouts), own retries included. `open`: not asked at all, the provider is being left alone.
 */
export type FailureNature = 'refused' | 'passing' | 'open';

/** @see FailureNature */
export class ProviderFailure extends Error {
  readonly code: Extract<ErrorCode, `AI_PROVIDER_${string}`>;
  readonly nature: FailureNature;
  /** The least wait before another ask, where one is known (ms). */
  readonly retryAfterMs: number | null;

  constructor(
    code: Extract<ErrorCode, `AI_PROVIDER_${string}`>,
    nature: FailureNature,
    options: { message: string; retryAfterMs?: number | null; cause?: unknown },
  ) {
    super(options.message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'ProviderFailure';
    this.code = code;
    this.nature = nature;
    this.retryAfterMs = options.retryAfterMs ?? null;
  }
}

/** The models, whoever provides them now. */
export interface Models {
  /**
   * Asks until there is a valid answer, the retries are spent or the deadline is over; leaves a usage event for each attempt.
   * @throws ProviderFailure, or the signal's reason when it was aborted
   */
  ask(task: ModelTask, about: AskedFor, signal: AbortSignal): Promise<ModelAnswer>;
}
