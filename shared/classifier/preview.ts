import { createHash } from 'node:crypto';
import type {
  AITaskResultEnvelope,
  EssayGradePreview,
  EssayGradeRequest,
  EssayHandoff,
  ExplanationPreview,
  GeneratePayload,
  GenerationMode,
  GenerationPreview,
  GenerationRequest,
  PreviewOwner,
  Settlement,
} from '#shared/generated/classifier.ts';
import type { FaultDetail } from '#shared/kernel/errors.ts';
import { composed } from '#shared/kernel/text.ts';
import { duplicateIndexes } from './new-job.ts';
import type { TaskResult } from './tasks/envelope.ts';
import type { TaskKind } from './tasks/task.ts';

/** A generation request with its defaults, before its reference questions are loaded. */
export interface WantedGeneration extends Omit<GeneratePayload, 'references'> {
  /** Sorted; empty unless the mode is `similar`. */
  referenceQuestionIds: string[];
}

const DEFAULT_LANGUAGE = 'vi';

/** The limits of the schema. It measures a text as it came, and some letters, such as those of Bengali with a dot below, grow when composed. */
const LIMITS = { subject: 200, gradeLevel: 64, topic: 500, difficulty: 64, instructions: 4_000 } as const;

/**
 * Returns the faults of a generation request that the schema cannot detect: texts that are too long when composed, and references that
 * are forbidden, missing or duplicate.
 */
export function generationFaults(request: GenerationRequest): FaultDetail[] {
  return [...lengthFaults(request), ...referenceFaults(request)];
}

function lengthFaults(request: GenerationRequest): FaultDetail[] {
  return Object.entries(LIMITS).flatMap(([name, most]) => {
    const { length } = [...plain(String(request[name as keyof typeof LIMITS] ?? ''))];
    return length <= most
      ? []
      : [{ path: `/${name}`, message: `must have at most ${most} characters in Unicode's form NFC` }];
  });
}

function referenceFaults({ mode, referenceQuestionIds: ids = [] }: GenerationRequest): FaultDetail[] {
  const path = '/referenceQuestionIds';
  if (mode !== 'similar') return ids.length === 0 ? [] : [{ path, message: 'only allowed with mode "similar"' }];
  if (ids.length === 0) return [{ path, message: 'must contain one to five question ids' }];
  return duplicateIndexes(ids).map((index) => ({ path: `${path}/${index}`, message: 'duplicate value' }));
}

/** Returns the request with defaults filled in and texts normalized, so that equivalent requests become equal. */
export function wantedGeneration(body: GenerationRequest): WantedGeneration {
  const instructions = plain(body.instructions ?? '');
  return {
    mode: body.mode,
    subject: plain(body.subject),
    gradeLevel: plain(String(body.gradeLevel)),
    topic: plain(body.topic),
    questionType: body.questionType,
    difficulty: plain(body.difficulty),
    count: body.count,
    language: (body.language ?? DEFAULT_LANGUAGE).toLowerCase(),
    instructions: instructions === '' ? null : instructions,
    referenceQuestionIds: [...(body.referenceQuestionIds ?? [])].sort(),
  };
}

/**
 * Returns the key that equal generations of one actor in one organization share: SHA-256 as hex. The order of fields and ids has no
 * effect. Provider and model are not part of it, so switching them never charges a repeated request again.
 */
export function generationKey(wanted: WantedGeneration, scope: { organizationId: string; actorId: string }): string {
  const sorted = Object.entries(wanted).sort(([a], [b]) => (a < b ? -1 : 1));
  const text = JSON.stringify([scope.organizationId, scope.actorId, sorted]);
  return createHash('sha256').update(text).digest('hex');
}

function plain(text: string): string {
  return composed(text).trim();
}

/** Services and routes that may store a preview's content; this service never does. */
const OWNERS: Readonly<Record<Exclude<TaskKind, 'classify'>, PreviewOwner>> = {
  generate: { service: 'question-service', route: 'POST /v1/questions/ai-preview-drafts' },
  explain: { service: 'question-service', route: 'POST /v1/questions/ai-preview-solutions' },
  grade: { service: 'attempt-service', route: 'POST /v1/attempts/{attemptId}/essay-grade-handoffs' },
};

const HANDOFF_TYPE = 'ai.essay_grade.handoff.v1';
const HANDOFF_SENDER = 'ai-classifier-service';

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
