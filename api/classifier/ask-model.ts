import type { OwnerScope } from '#infra/neighbours/owner-call.ts';
import { loadQuestions, QuestionBankFailed } from '#infra/neighbours/question-bank.ts';
import type { WantedGeneration } from '#shared/classifier/preview.ts';
import { type TaskRequest, type TaskResult, taskRequest } from '#shared/classifier/tasks/envelope.ts';
import { ProviderFailure, type TaskKind } from '#shared/classifier/tasks/task.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import type { PreviewDeps } from './deps.ts';

/**
 * Performs a task and returns its result envelope. A provider failure or an unusable answer becomes a rejection with our message, never
 * the provider's text. Other errors are rethrown.
 */
export async function askModel<Kind extends TaskKind>(
  { models }: Pick<PreviewDeps, 'models'>,
  request: TaskRequest<Kind>,
  signal: AbortSignal,
): Promise<TaskResult<Kind> | Rejection> {
  try {
    return await models.perform(request, signal);
  } catch (error) {
    if (!(error instanceof ProviderFailure)) throw error;
    const { code, retryAfterMs } = error;
    return { rejected: code, ...(retryAfterMs === null ? {} : { retryAfter: Math.ceil(retryAfterMs / 1_000) }) };
  }
}

/** A wanted generation, its caller and the id of the request. */
export interface GenerationOrder {
  wanted: WantedGeneration;
  scope: OwnerScope;
  requestId: string;
}

/** Calls the model for the questions of an order; returns the result envelope or a rejection. */
export async function generate(
  deps: PreviewDeps,
  { wanted, scope, requestId }: GenerationOrder,
  made: { previewId: string; idempotencyKey?: string; references: Record<string, unknown>[] },
  signal: AbortSignal,
): Promise<TaskResult<'generate'> | Rejection> {
  const { referenceQuestionIds: _, ...rest } = wanted;
  const { previewId: taskId, references, ...key } = made;
  const about = { organizationId: scope.organizationId, actorId: scope.actor.id, jobId: null, batchIndex: null };
  const request = taskRequest('generate', { ...rest, references }, { taskId, ...key, requestId, ...about });
  return askModel(deps, request, signal);
}

/** Question fields that the model sees of a reference. The answer key is omitted, because the model could copy it. */
const SHOWN = ['id', 'type', 'content', 'contentText', 'options'];

/**
 * Loads the reference questions of a generation from the question bank on behalf of the caller, in the order of
 * `referenceQuestionIds`. Returns a rejection if the bank fails, is not configured or does not have one of the questions.
 */
export async function loadReferences(
  { neighbours, outboundTimeoutMs: timeoutMs, log }: Pick<PreviewDeps, 'neighbours' | 'outboundTimeoutMs' | 'log'>,
  { referenceQuestionIds: questionIds }: WantedGeneration,
  { organizationId, actor }: OwnerScope,
  signal: AbortSignal,
): Promise<Record<string, unknown>[] | Rejection> {
  if (questionIds.length === 0) return [];
  const bank = neighbours.questionBank;
  if (bank === null) return { rejected: 'AI_OWNER_UNAVAILABLE' };
  const scope = { organizationId, actorId: actor.id, actorRole: actor.role };
  const wanted = { questionIds, fields: [], mode: 'SUGGEST', overwrite: false, ...scope };
  try {
    const known = await loadQuestions(bank, wanted, { timeoutMs, signal });
    const missing = questionIds.flatMap((id, at) => (known.has(id) ? [] : [at]));
    if (missing.length > 0) return unknownReferences(missing);
    return questionIds.map((id) => shown(known.get(id) ?? {}));
  } catch (error) {
    if (!(error instanceof QuestionBankFailed)) throw error;
    log.warn({ err: error }, 'loading the references of a generation failed; 503 returned');
    return { rejected: 'AI_OWNER_UNAVAILABLE' };
  }
}

function unknownReferences(places: readonly number[]): Rejection {
  const details = places.map((at) => ({
    path: `/referenceQuestionIds/${at}`,
    message: 'must be the id of a question in the question bank',
  }));
  return { rejected: 'VALIDATION_FAILED', details };
}

function shown(question: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    SHOWN.flatMap((field) => (Object.hasOwn(question, field) ? [[field, question[field]]] : [])),
  );
}
