import type { TaskResult } from '#shared/classifier/tasks/envelope.ts';
import type { TaskKind } from '#shared/classifier/tasks/task.ts';
import type {
  AITaskResultEnvelope,
  EssayGradePreview,
  EssayGradeRequest,
  EssayHandoff,
  ExplanationPreview,
  GenerationMode,
  GenerationPreview,
  PreviewOwner,
  Settlement,
} from '#shared/generated/classifier.ts';

/** Services and routes that may store a preview's content; this service never does. */
const OWNERS: Readonly<Record<Exclude<TaskKind, 'classify'>, PreviewOwner>> = {
  generate: { service: 'question-service', route: 'POST /v1/questions/ai-preview-drafts' },
  explain: { service: 'question-service', route: 'POST /v1/questions/ai-preview-solutions' },
  grade: { service: 'attempt-service', route: 'POST /v1/attempts/{attemptId}/essay-grade-handoffs' },
};

export const HANDOFF_TYPE = 'ai.essay_grade.handoff.v1';
export const HANDOFF_SENDER = 'ai-classifier-service';

/** Returns the preview of a generation. `settlement` is null if the generation is free. */
export function generationPreview(
  result: TaskResult<'generate'>,
  mode: GenerationMode,
  settlement: Settlement | null,
): GenerationPreview {
  return {
    ...headOf(result),
    kind: 'generate',
    mode,
    questions: result.generate.questions,
    chargePolicy: settlement === null ? 'preview_only_no_consume' : 'usage_wallet_settled',
    owner: OWNERS.generate,
    ...(settlement === null ? {} : { settlement }),
  };
}

/** Returns the preview of an explanation. It costs nothing. */
export function explanationPreview(result: TaskResult<'explain'>): ExplanationPreview {
  return {
    ...headOf(result),
    kind: 'explain',
    solution: result.explain,
    chargePolicy: 'preview_only_no_consume',
    owner: OWNERS.explain,
  };
}

/** Returns the preview of an essay grade, with the handoff that the attempt service accepts. It costs nothing. */
export function essayGradePreview(result: TaskResult<'grade'>, request: EssayGradeRequest): EssayGradePreview {
  const { score, maxScore, feedback, criteria } = result.grade;
  return {
    ...headOf(result),
    kind: 'grade',
    score,
    maxScore,
    feedback,
    criteria,
    handoff: essayHandoff(result, request),
    chargePolicy: 'preview_only_no_consume',
    owner: OWNERS.grade,
  };
}

/** Returns the handoff that the attempt service accepts unchanged. Its event id makes repeats harmless. */
function essayHandoff(result: TaskResult<'grade'>, { questionId, rubric }: EssayGradeRequest): EssayHandoff {
  const { score, maxScore, feedback, criteria } = result.grade;
  const nameOf = new Map(rubric.criteria.map(({ id, name }) => [id, name]));
  return {
    sourceService: HANDOFF_SENDER,
    type: HANDOFF_TYPE,
    sourceEventId: `ai-essay-grade:${result.taskId}`,
    questionId,
    score,
    maxScore,
    feedback,
    criteria: criteria.map(({ id, ...graded }) => ({ id, name: nameOf.get(id) ?? id, ...graded })),
    provider: result.provider,
    model: result.model,
    occurredAt: result.finishedAt,
  };
}

function headOf({
  taskId,
  provider,
  model,
  usage,
}: Pick<AITaskResultEnvelope, 'taskId' | 'provider' | 'model' | 'usage'>) {
  return { previewId: taskId, provider, model, usage };
}
