import type {
  AITaskRequestEnvelope,
  AITaskResultEnvelope,
  ClassifyPayload,
  ClassifyResult,
  EssayGradeRequest,
  ExplanationRequest,
  GeneratePayload,
  GenerateResult,
  GradeResult,
  Solution,
} from '#shared/generated/classifier.ts';
import type { ModelAnswer, TaskKind } from './task.ts';

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
export type TaskRequest<Kind extends TaskKind> = Envelope<AITaskRequestEnvelope, Kind, Payload<Kind>>;
/** AITaskResultEnvelope, with the result in the field named after its kind. */
export type TaskResult<Kind extends TaskKind> = Envelope<AITaskResultEnvelope, Kind, Result<Kind>>;

/** The members of a request that a provider call reads besides the payload. */
export type TaskTerms = Pick<AITaskRequestEnvelope, 'features' | 'usageEvent'>;

const OPERATIONS: Readonly<Record<TaskKind, AITaskRequestEnvelope['usageEvent']['operation']>> = {
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
type TaskScope = Omit<AITaskRequestEnvelope['usageEvent'], 'operation'> & {
  taskId: string;
  /** Key under which the task's result is stored once, and charged if it is paid for. Defaults to the task's id: nothing is stored. */
  idempotencyKey?: string;
  /** Defaults to a key of this task alone, which ends with its request. */
  cancellationKey?: string;
};

/** Returns the request envelope of a task. Equal ids mean the same task. */
export function taskRequest<Kind extends TaskKind>(
  kind: Kind,
  payload: TaskPayloads[Kind],
  { taskId, idempotencyKey = taskId, cancellationKey = `preview:${taskId}`, ...about }: TaskScope,
): TaskRequest<Kind> {
  const envelope: Omit<AITaskRequestEnvelope, TaskKind> = {
    taskId,
    kind,
    idempotencyKey,
    cancellationKey,
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
  const envelope: Omit<AITaskResultEnvelope, TaskKind> = {
    taskId: request.taskId,
    kind: request.kind as TaskKind,
    provider,
    model,
    usage,
    finishedAt: new Date(now).toISOString(),
  };
  return { ...envelope, [request.kind as TaskKind]: result } as TaskResult<Kind>;
}

/** The task was cancelled under its cancellation key while it was running. */
export class TaskCancelled extends Error {
  override readonly name = 'TaskCancelled';

  constructor({ cancellationKey }: { cancellationKey: string }) {
    super(`task cancelled: ${cancellationKey}`);
  }
}

/** The models of the provider in force. */
export interface Models {
  /**
   * Performs a task: the prompt is made from its payload, and the model is called until it returns a valid answer, the retries are spent
   * or the deadline has passed. Stores a usage event for each call.
   *
   * @throws ProviderFailure; TaskCancelled after a cancellation under its key in any process; the signal's reason if it was aborted
   */
  perform<Kind extends TaskKind>(request: TaskRequest<Kind>, signal: AbortSignal): Promise<TaskResult<Kind>>;
}
