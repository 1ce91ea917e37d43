import { leasePreview, releasePreview, renewPreview } from '#infra/mongo/classifier/in-flight.ts';
import { isErased } from '#infra/mongo/erased-persons.ts';
import type { OwnerScope } from '#infra/neighbours/owner-call.ts';
import { loadQuestions, QuestionBankFailed } from '#infra/neighbours/question-bank.ts';
import type { WantedGeneration } from '#shared/classifier/preview.ts';
import { type TaskRequest, type TaskResult, taskRequest } from '#shared/classifier/tasks/envelope.ts';
import { ProviderFailure, type TaskKind } from '#shared/classifier/tasks/task.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { newId } from '#shared/kernel/ids.ts';
import { MINUTE } from '#shared/kernel/time.ts';
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

/** Previews that one actor may have in flight, at all front doors together. */
const MAX_IN_FLIGHT = 4;
/** Lease of a preview in flight (ms). After a front door is killed, its previews count for at most this long. */
const LEASE_MS = MINUTE;
const RENEW_MS = LEASE_MS / 4;
/** `Retry-After` of a preview that exceeds the limit (s). The end of the others is unknown. */
const RETRY_AFTER_SECONDS = 5;

/**
 * Makes a preview while its actor has fewer than MAX_IN_FLIGHT others in flight; otherwise rejects it and calls nothing. That of an erased
 * actor is rejected too. An erasure that begins later waits for the lease, or its second pass finds it.
 */
export async function inFlight<Result>(
  { mongo, now, log }: Pick<PreviewDeps, 'mongo' | 'now' | 'log'>,
  actorId: string,
  make: () => Promise<Result>,
): Promise<Result | Rejection> {
  if (await isErased(mongo, actorId)) return { rejected: 'PERSON_ERASED' };
  const lease = { actorId, leaseId: newId(now()) };
  const leased = await leasePreview(mongo, lease, { limit: MAX_IN_FLIGHT, leaseMs: LEASE_MS, now: now() });
  if (leased.kind === 'full') {
    const message = `The caller has ${MAX_IN_FLIGHT} previews in flight; wait for a reply`;
    return { rejected: 'RATE_LIMITED', message, retryAfter: RETRY_AFTER_SECONDS };
  }
  // A renewal or release that fails must not fail the preview: without it the lease ends by itself, and the place is free a minute later.
  const warn = (err: unknown) => log.warn({ err }, 'lease of a preview in flight could not be changed');
  const renewal = setInterval(() => void renewPreview(mongo, lease, LEASE_MS).catch(warn), RENEW_MS);
  try {
    return await make();
  } finally {
    clearInterval(renewal);
    await releasePreview(mongo, lease).catch(warn);
  }
}
