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
import type { AskedFor, ModelAnswer, TaskKind } from './model-task.ts';

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
export type TaskScope = Omit<AskedFor, 'operation'> & {
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
