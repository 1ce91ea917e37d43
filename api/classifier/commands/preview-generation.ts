import { scopeOf } from '#api/classifier/caller.ts';
import { type GenerationOrder, generate } from '#api/classifier/generate.ts';
import { loadReferences } from '#api/classifier/load-references.ts';
import { paidGeneration } from '#api/classifier/paid-generation.ts';
import type { PreviewDeps } from '#api/classifier/preview-deps.ts';
import type { Call, Reply } from '#api/route.ts';
import { generationFaults, wantedGeneration } from '#shared/classifier/generation-request.ts';
import { generationPreview } from '#shared/classifier/preview.ts';
import type { GenerationRequest } from '#shared/generated/classifier.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { newId } from '#shared/kernel/ids.ts';

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
