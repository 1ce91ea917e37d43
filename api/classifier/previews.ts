import { ACTOR, identity, role, scope } from '#api/http/guards/identity.ts';
import { type Call, ESSAY_BODY, type Reply, type Route, SMALL_BODY, type Tag } from '#api/route.ts';
import { isErased } from '#infra/mongo/erased-persons.ts';
import {
  essayGradePreview,
  explanationPreview,
  generationFaults,
  generationPreview,
  wantedGeneration,
} from '#shared/classifier/preview.ts';
import { taskRequest } from '#shared/classifier/tasks/envelope.ts';
import { explainPayload, gradeFaults } from '#shared/classifier/tasks/explain-and-grade.ts';
import type { EssayGradeRequest, ExplanationRequest, GenerationRequest } from '#shared/generated/classifier.ts';
import { type ErrorCode, type FaultDetail, isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { newId } from '#shared/kernel/ids.ts';
import { askModel, type GenerationOrder, generate, inFlight, loadReferences } from './ask-model.ts';
import { callerOf, type PreviewDeps, scopeOf } from './deps.ts';
import { paidGeneration } from './paid-generation.ts';

/** Codes that each preview may get besides those of its own checks. */
const PREVIEW_CODES: readonly ErrorCode[] = [
  'RATE_LIMITED',
  'PERSON_ERASED',
  'AI_PROVIDER_INVALID_RESPONSE',
  'AI_PROVIDER_UNAVAILABLE',
  'AI_PROVIDER_CIRCUIT_OPEN',
  'AI_PROVIDER_THROTTLED',
  'AI_PROVIDER_QUOTA',
  'AI_PROVIDER_TIMEOUT',
  'AI_PROVIDER_NOT_CONFIGURED',
];

const PREVIEWS: Tag = {
  name: 'Classifier: previews',
  description: 'Output of a model for a teacher to review. An actor has four previews in flight.',
  envelopes: { request: 'classifier/ai-task-request-envelope', result: 'classifier/ai-task-result-envelope' },
};

/** Routes that return model output for a teacher to review. This service never writes the output to its owner. */
export function previewRoutes(deps: PreviewDeps): Route[] {
  const guards = [identity(ACTOR), scope(), role('ADMIN', 'TEACHER')];
  return [
    {
      method: 'POST',
      path: '/v1/ai/generation/preview',
      operation: 'previewGeneration',
      summary: 'Generate questions as a preview; none is stored',
      description:
        'Returns generated questions for a teacher to review; `owner` names the route that may store them. Free previews have no key: a repeat generates again. If generations are paid for, equal requests of an actor share one generation for 24 h, which is charged once. After 503 `AI_SETTLEMENT_PENDING`, send the same request again.',
      tag: PREVIEWS,
      guards,
      body: { schema: 'classifier/generation-request', maxBytes: SMALL_BODY },
      replies: [
        {
          status: 200,
          schema: 'classifier/generation-preview',
          description: 'Generated questions, new or from an equal earlier request',
        },
      ],
      errors: [
        ...PREVIEW_CODES,
        'AI_OWNER_UNAVAILABLE',
        'AI_WALLET_INSUFFICIENT',
        'AI_USAGE_LIMIT_EXCEEDED',
        'AI_SETTLEMENT_PENDING',
        'AI_GENERATION_IN_PROGRESS',
      ],
      failureData: { AI_SETTLEMENT_PENDING: 'classifier/pending-preview' },
      handle: async (call) => refusalOf(generationFaults(call.body)) ?? previewGeneration(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/ai/explanation/preview',
      operation: 'previewExplanation',
      summary: 'Explain a question as a preview; no solution is stored',
      description:
        'Returns a solution of a question for a teacher to review. A question of a generation preview may be sent as it is. Nothing is stored and nothing is charged; a repeat calls the model again.',
      tag: PREVIEWS,
      guards,
      body: { schema: 'classifier/explanation-request', maxBytes: SMALL_BODY },
      replies: [{ status: 200, schema: 'classifier/explanation-preview', description: 'Proposed solution' }],
      errors: PREVIEW_CODES,
      handle: (call) => inFlight(deps, callerOf(call.identity).actorId, () => previewExplanation(deps, call)),
    },
    {
      method: 'POST',
      path: '/v1/ai/essay-grade/preview',
      operation: 'previewEssayGrade',
      summary: 'Grade an essay by its rubric as a preview; no grade is stored',
      description:
        "Returns a proposed grade of an essay, with the body that stores it after a teacher's consent. Nothing is stored and nothing is charged; a repeat calls the model again, and its handoff has another `sourceEventId`.",
      tag: PREVIEWS,
      guards,
      body: { schema: 'classifier/essay-grade-request', maxBytes: ESSAY_BODY, anyMarks: ['/answerText'] },
      replies: [
        { status: 200, schema: 'classifier/essay-grade-preview', description: 'Proposed grade and its handoff' },
      ],
      errors: PREVIEW_CODES,
      handle: async (call) =>
        refusalOf(gradeFaults(call.body)) ??
        inFlight(deps, callerOf(call.identity).actorId, () => previewEssayGrade(deps, call)),
    },
  ];
}

/** Returns the refusal of a body with these faults, or null without any. A faulty request never counts as a preview in flight. */
function refusalOf(details: FaultDetail[]): Rejection | null {
  return details.length === 0 ? null : { rejected: 'VALIDATION_FAILED', details };
}

/**
 * Returns generated questions. If settlement is on, they are paid for, and an equal request within a day gets the same answer. A request that
 * gets the answer of another one is not in flight: it calls no model.
 */
export async function previewGeneration(deps: PreviewDeps, call: Call<GenerationRequest>): Promise<Reply | Rejection> {
  const { requestId } = call;
  const order = { wanted: wantedGeneration(call.body), scope: scopeOf(call.identity), requestId };
  const { id: actorId } = order.scope.actor;
  const preview = deps.settles
    ? await paidUnlessErased(deps, order, call)
    : await inFlight(deps, actorId, () => freeGeneration(deps, order, call.signal));
  return isRejection(preview) ? preview : { status: 200, data: preview };
}

async function paidUnlessErased(deps: PreviewDeps, order: GenerationOrder, call: Call<GenerationRequest>) {
  // A stored answer is found without `inFlight`, which refuses an erased caller.
  if (await isErased(deps.mongo, order.scope.actor.id)) return { rejected: 'PERSON_ERASED' } as const;
  return paidGeneration(deps, order, call);
}

async function freeGeneration(deps: PreviewDeps, order: GenerationOrder, signal: AbortSignal) {
  const references = await loadReferences(deps, order.wanted, order.scope, signal);
  if (isRejection(references)) return references;
  const result = await generate(deps, order, { previewId: newId(deps.now()), references }, signal);
  return isRejection(result) ? result : generationPreview(result, order.wanted.mode, null);
}

/** Returns a model's solution of a question, for the question's editor. */
export async function previewExplanation(
  deps: PreviewDeps,
  call: Call<ExplanationRequest>,
): Promise<Reply | Rejection> {
  const request = taskRequest('explain', explainPayload(call.body), taskScopeOf(deps, call));
  const result = await askModel(deps, request, call.signal);
  return isRejection(result) ? result : { status: 200, data: explanationPreview(result) };
}

/** Returns a model's grade of an essay by its rubric, with the handoff that the attempt service accepts. */
export async function previewEssayGrade(deps: PreviewDeps, call: Call<EssayGradeRequest>): Promise<Reply | Rejection> {
  const essay = call.body;
  const request = taskRequest('grade', essay, taskScopeOf(deps, call));
  const result = await askModel(deps, request, call.signal);
  return isRejection(result) ? result : { status: 200, data: essayGradePreview(result, essay) };
}

/** Returns the scope of a preview's task, which belongs to no job. */
function taskScopeOf(deps: PreviewDeps, { identity, requestId }: Call) {
  const { organizationId, actorId } = callerOf(identity);
  return { taskId: newId(deps.now()), organizationId, actorId, requestId, jobId: null, batchIndex: null };
}
