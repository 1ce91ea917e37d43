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
  usage: TokenUsage;
  provider: string;
  model: string;
}

/** Origin of a task, stored in its usage events. */
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

/** The models of the provider in force. */
export interface Models {
  /**
   * Calls the model until it returns a valid answer, the retries are spent or the deadline has passed. Stores a usage event for
   * each attempt.
   * @throws ProviderFailure, or the signal's reason if it was aborted
   */
  ask(task: ModelTask, about: AskedFor, signal: AbortSignal): Promise<ModelAnswer>;
}

/** Payload of each kind of task. */
export interface TaskPayloads {
  classify: ClassifyPayload;
  generate: GeneratePayload;
  explain: ExplanationRequest;
  grade: EssayGradeRequest;
}

/** Result of each kind of task. */
export interface TaskResults {
  classify: ClassifyResult;
  generate: GenerateResult;
  explain: Solution;
  grade: GradeResult;
}

type Payload<Kind extends TaskKind> = { [K in Kind]: TaskPayloads[K] };
type Result<Kind extends TaskKind> = { [K in Kind]: TaskResults[K] };
/** An envelope without the payload fields of the other kinds. */
type Envelope<Whole, Kind extends TaskKind, Part> = Omit<Whole, TaskKind | 'kind'> & { kind: Kind } & Part;

/** A task as passed on inside the service: AITaskRequestEnvelope, with the payload in the field named after its kind. */
export type TaskRequest<Kind extends TaskKind> = Envelope<AiTaskRequestEnvelope, Kind, Payload<Kind>>;
/** AITaskResultEnvelope, with the result in the field named after its kind. */
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

/** Caller of a task, and the part of the work that it belongs to. */
type TaskScope = Omit<AskedFor, 'operation'> & {
  taskId: string;
  /** Key under which the task's costs are charged once; defaults to the task's id. */
  idempotencyKey?: string;
};

/** Returns the request envelope of a task. Equal ids mean the same task. */
export function taskRequest<Kind extends TaskKind>(
  kind: Kind,
  payload: TaskPayloads[Kind],
  { taskId, idempotencyKey = taskId, ...about }: TaskScope,
): TaskRequest<Kind> {
  const envelope: Omit<AiTaskRequestEnvelope, TaskKind> = {
    taskId,
    kind,
    idempotencyKey,
    // A classification is cancelled with its job, a preview with its request.
    cancellationKey: about.jobId === null ? `preview:${taskId}` : `job:${about.jobId}`,
    features: { structuredOutput: true, repairs: 1, streaming: true },
    usageEvent: { operation: OPERATIONS[kind], ...about },
    rollback: ROLLBACKS[kind],
  };
  return { ...envelope, [kind]: payload } as TaskRequest<Kind>;
}

/** Returns the result envelope of a task that finished at `now` (ms since the epoch). */
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
