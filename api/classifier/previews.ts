import { ACTOR, identity, role, scope } from '#api/http/guards/identity.ts';
import { type Call, ESSAY_BODY, type Reply, type Route, SMALL_BODY } from '#api/route.ts';
import { generationFaults, wantedGeneration } from '#shared/classifier/generation-request.ts';
import { essayGradePreview, explanationPreview, generationPreview } from '#shared/classifier/preview.ts';
import {
  explainTask,
  gradeFaults,
  gradeTask,
  readGrade,
  readSolution,
} from '#shared/classifier/tasks/explain-and-grade.ts';
import { taskRequest } from '#shared/classifier/tasks/task.ts';
import type { EssayGradeRequest, ExplanationRequest, GenerationRequest } from '#shared/generated/classifier.ts';
import { type ErrorCode, isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { newId } from '#shared/kernel/ids.ts';
import { askModel, type GenerationOrder, generate, loadReferences } from './ask-model.ts';
import { callerOf, type PreviewDeps, scopeOf } from './deps.ts';
import { paidGeneration } from './paid-generation.ts';

const PROVIDER_CODES: readonly ErrorCode[] = [
  'AI_PROVIDER_INVALID_RESPONSE',
  'AI_PROVIDER_UNAVAILABLE',
  'AI_PROVIDER_CIRCUIT_OPEN',
  'AI_PROVIDER_THROTTLED',
  'AI_PROVIDER_QUOTA',
  'AI_PROVIDER_TIMEOUT',
  'AI_PROVIDER_NOT_CONFIGURED',
];

/** What a model can make for a teacher to look at. Nothing of it is written; whoever owns it writes it, if asked to. */
export function previewRoutes(deps: PreviewDeps): Route[] {
  const guards = [identity(ACTOR), scope(), role('ADMIN', 'TEACHER')];
  return [
    {
      method: 'POST',
      path: '/v1/ai/generation/preview',
      operation: 'previewGeneration',
      summary: 'Generate questions, without writing any',
      guards,
      body: { schema: 'classifier/generation-request', maxBytes: SMALL_BODY },
      replies: [{ status: 200, schema: 'classifier/generation-preview', description: 'Made, or made before' }],
      errors: [
        ...PROVIDER_CODES,
        'AI_OWNER_UNAVAILABLE',
        'AI_WALLET_INSUFFICIENT',
        'AI_USAGE_LIMIT_EXCEEDED',
        'AI_SETTLEMENT_PENDING',
        'AI_GENERATION_IN_PROGRESS',
      ],
      failureData: { AI_SETTLEMENT_PENDING: 'classifier/pending-preview' },
      handle: (call) => previewGeneration(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/ai/explanation/preview',
      operation: 'previewExplanation',
      summary: 'Explain a question, without writing a solution',
      guards,
      body: { schema: 'classifier/explanation-request', maxBytes: SMALL_BODY },
      replies: [{ status: 200, schema: 'classifier/explanation-preview', description: 'Made' }],
      errors: PROVIDER_CODES,
      handle: (call) => previewExplanation(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/ai/essay-grade/preview',
      operation: 'previewEssayGrade',
      summary: 'Grade an essay by its rubric, without writing a grade',
      guards,
      body: { schema: 'classifier/essay-grade-request', maxBytes: ESSAY_BODY },
      replies: [{ status: 200, schema: 'classifier/essay-grade-preview', description: 'Graded' }],
      errors: PROVIDER_CODES,
      handle: (call) => previewEssayGrade(deps, call),
    },
  ];
}

/** Questions that nobody has stored; paid for where that is configured, and then the same for whoever asks the same again. */
export async function previewGeneration(deps: PreviewDeps, call: Call<GenerationRequest>): Promise<Reply | Rejection> {
  const details = generationFaults(call.body);
  if (details.length > 0) return { rejected: 'VALIDATION_FAILED', details };
  const { requestId, signal } = call;
  const order = { wanted: wantedGeneration(call.body), scope: scopeOf(call.identity), requestId };
  const preview = deps.settles ? await paidGeneration(deps, order, signal) : await freeGeneration(deps, order, signal);
  return isRejection(preview) ? preview : { status: 200, data: preview };
}

async function freeGeneration(deps: PreviewDeps, order: GenerationOrder, signal: AbortSignal) {
  const references = await loadReferences(deps, order.wanted, order.scope, signal);
  if (isRejection(references)) return references;
  const result = await generate(deps, order, { previewId: newId(deps.now()), references }, signal);
  return isRejection(result) ? result : generationPreview(result, order.wanted.mode, null);
}

/** The solution of a question, for its editor. */
export async function previewExplanation(
  deps: PreviewDeps,
  call: Call<ExplanationRequest>,
): Promise<Reply | Rejection> {
  const request = taskRequest('explain', call.body, taskScopeOf(deps, call));
  const result = await askModel(deps, request, { task: explainTask(call.body), read: readSolution }, call.signal);
  return isRejection(result) ? result : { status: 200, data: explanationPreview(result) };
}

/** The grade of an essay by its rubric, and the handoff with which the attempt service takes it. */
export async function previewEssayGrade(deps: PreviewDeps, call: Call<EssayGradeRequest>): Promise<Reply | Rejection> {
  const essay = call.body;
  const details = gradeFaults(essay);
  if (details.length > 0) return { rejected: 'VALIDATION_FAILED', details };
  const request = taskRequest('grade', essay, taskScopeOf(deps, call));
  const read = (json: unknown) => readGrade(essay, json);
  const result = await askModel(deps, request, { task: gradeTask(essay), read }, call.signal);
  return isRejection(result) ? result : { status: 200, data: essayGradePreview(result, essay) };
}

/** For whom the task of a preview is done; it belongs to no job. */
function taskScopeOf(deps: PreviewDeps, { identity, requestId }: Call) {
  const { organizationId, actorId } = callerOf(identity);
  return { taskId: newId(deps.now()), organizationId, actorId, requestId, jobId: null, batchIndex: null };
}
