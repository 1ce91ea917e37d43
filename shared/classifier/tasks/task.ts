import type {
  AiTaskRequestEnvelope,
  AiTaskResultEnvelope,
  ClassifyPayload,
  ClassifyResult,
  EssayGradeRequest,
  ExplanationRequest,
  GeneratePayload,
  GenerateResult,
  GradeResult,
  Solution,
} from '#shared/generated/classifier.ts';
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

/** What each kind of task is given. */
export interface TaskPayloads {
  classify: ClassifyPayload;
  generate: GeneratePayload;
  explain: ExplanationRequest;
  grade: EssayGradeRequest;
}

/** What comes of it. */
export interface TaskResults {
  classify: ClassifyResult;
  generate: GenerateResult;
  explain: Solution;
  grade: GradeResult;
}

type Payload<Kind extends TaskKind> = { [K in Kind]: TaskPayloads[K] };
type Result<Kind extends TaskKind> = { [K in Kind]: TaskResults[K] };
/** The fields of the payloads of other kinds are not there. */
type Envelope<Whole, Kind extends TaskKind, Part> = Omit<Whole, TaskKind | 'kind'> & { kind: Kind } & Part;

/** A task as it is handed over inside the service: AITaskRequestEnvelope, its payload under the name of its kind. */
export type TaskRequest<Kind extends TaskKind> = Envelope<AiTaskRequestEnvelope, Kind, Payload<Kind>>;
/** AITaskResultEnvelope, likewise. */
export type TaskResult<Kind extends TaskKind> = Envelope<AiTaskResultEnvelope, Kind, Result<Kind>>;

const OPERATIONS: Readonly<Record<TaskKind, AiTaskRequestEnvelope['usageEvent']['operation']>> = {
  classify: 'question-classification',
  generate: 'question-generation',
  explain: 'question-solution',
  grade: 'essay-grade',
};

const ROLLBACKS: Readonly<Record<TaskKind, string>> = {
  classify: 'Nothing outside the job was written; a batch that is not noted in it is classified again.',
  generate:
    'No question was written. Where it is paid for, the stored replay is settled under its own keys and never undone.',
  explain: 'No solution was written and nothing was charged.',
  grade: 'No grade was written and nothing was charged; a handoff that was not sent has no effect.',
};

/** Who asks, and for what part of which work. */
type TaskScope = Omit<AskedFor, 'operation'> & {
  taskId: string;
  /** By which the task's costs are owed once; the task's id unless it has another. */
  idempotencyKey?: string;
};

export function taskRequest<Kind extends TaskKind>(
  kind: Kind,
  payload: TaskPayloads[Kind],
  { taskId, idempotencyKey = taskId, ...about }: TaskScope,
): TaskRequest<Kind> {
  const envelope: Omit<AiTaskRequestEnvelope, TaskKind> = {
    taskId,
    kind,
    idempotencyKey,
    // A classification ends with its job, a preview with the request of whoever waits for it.
    cancellationKey: about.jobId === null ? `preview:${taskId}` : `job:${about.jobId}`,
    features: { structuredOutput: true, repairs: 1, streaming: true },
    usageEvent: { operation: OPERATIONS[kind], ...about },
    rollback: ROLLBACKS[kind],
  };
  return { ...envelope, [kind]: payload } as TaskRequest<Kind>;
}

export function taskResult<Kind extends TaskKind>(
  request: TaskRequest<Kind>,
  result: TaskResults[Kind],
  answer: Pick<ModelAnswer, 'provider' | 'model' | 'usage'>,
  now: number,
): TaskResult<Kind> {
  const { provider, model, usage } = answer;
  const envelope: Omit<AiTaskResultEnvelope, TaskKind> = {
    taskId: request.taskId,
    kind: request.kind as TaskKind,
    provider,
    model,
    usage,
    finishedAt: new Date(now).toISOString(),
  };
  return { ...envelope, [request.kind as TaskKind]: result } as TaskResult<Kind>;
}
