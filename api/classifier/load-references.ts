import type { OwnerScope } from '#infra/neighbours/owner-call.ts';
import { loadQuestions, QuestionBankFailed } from '#infra/neighbours/question-bank.ts';
import type { WantedGeneration } from '#shared/classifier/generation-request.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import type { PreviewDeps } from './preview-deps.ts';

/** What a generation may follow of a question: not its key, which it could copy. */
const SHOWN = ['id', 'type', 'content', 'contentText', 'options'];

/** The questions that a generation follows, as the bank has them for this caller, in the order of their ids. */
export async function loadReferences(
  { neighbours, outboundTimeoutMs: timeoutMs }: Pick<PreviewDeps, 'neighbours' | 'outboundTimeoutMs'>,
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
    return { rejected: 'AI_OWNER_UNAVAILABLE' };
  }
}

function unknownReferences(places: readonly number[]): Rejection {
  const details = places.map((at) => ({
    path: `/referenceQuestionIds/${at}`,
    message: 'names a question that the bank does not have',
  }));
  return { rejected: 'VALIDATION_FAILED', details };
}

function shown(question: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    SHOWN.flatMap((field) => (Object.hasOwn(question, field) ? [[field, question[field]]] : [])),
  );
}
