import { setTimeout as delay } from 'node:timers/promises';
import { newestGeneration, openGeneration, takeGeneration } from '#infra/mongo/classifier/generations.ts';
import { COME_BACK_SECONDS, type Generation, nextStep } from '#shared/classifier/generation.ts';
import { generationKey } from '#shared/classifier/generation-request.ts';
import { generationPreview } from '#shared/classifier/preview.ts';
import type { TaskResult } from '#shared/classifier/tasks/task.ts';
import type { GenerationPreview } from '#shared/generated/classifier.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { newId } from '#shared/kernel/ids.ts';
import type { GenerationOrder } from './generate.ts';
import { makeAndSettle } from './make-and-settle.ts';
import type { PreviewDeps } from './preview-deps.ts';

const LOOK_MS = 100;
/** After a race that was lost. */
const NEXT_LOOK_MS = 5;

/**
 * A generation that is paid for, once for all equal requests of a day. Whoever holds its row makes and settles it; the others, in whatever
 * process, look until that one is done, and answer the same.
 */
export async function paidGeneration(
  deps: PreviewDeps,
  order: GenerationOrder,
  signal: AbortSignal,
): Promise<GenerationPreview | Rejection> {
  const { mongo, now, patience } = deps;
  const { organizationId, actor } = order.scope;
  const key = generationKey(order.wanted, { organizationId, actorId: actor.id });
  const giveUpAt = performance.now() + patience.waitMs;
  let waitedFor: { id: string; fence: number } | null = null;
  for (;;) {
    const next = nextStep(await newestGeneration(mongo, key), now(), waitedFor);
    if (next.kind === 'replay') return previewOf(next.row, order);
    if (next.kind === 'refuse') return next.rejection;
    if (next.kind === 'wait') {
      if (performance.now() >= giveUpAt)
        return { rejected: 'AI_GENERATION_IN_PROGRESS', retryAfter: COME_BACK_SECONDS };
      waitedFor = { id: next.row._id, fence: next.row.fence };
      await delay(LOOK_MS, undefined, { signal });
      continue;
    }
    const named = { key, organizationId, actor, now: now(), leaseMs: patience.leaseMs };
    const held =
      next.kind === 'open'
        ? await openGeneration(mongo, { _id: newId(now()), epoch: next.epoch, ...named })
        : await takeGeneration(mongo, next.row._id, { by: 'door', leaseMs: patience.leaseMs });
    if (held === null) {
      // Somebody else was quicker: what they hold is what we wait for, from now on.
      await delay(NEXT_LOOK_MS, undefined, { signal });
      continue;
    }
    const settled = await makeAndSettle(deps, order, held, signal);
    if (settled !== null) return isRejection(settled) ? settled : previewOf(settled, order);
  }
}

function previewOf({ _id, result, charge, settledAt }: Generation, { wanted }: GenerationOrder): GenerationPreview {
  if (result === null || charge === null || settledAt === null) throw new Error(`generation ${_id} is not settled`);
  const settlement = { ...charge, settledAt: settledAt.toISOString() };
  return generationPreview(JSON.parse(result) as TaskResult<'generate'>, wanted.mode, settlement);
}
