import { setTimeout as delay } from 'node:timers/promises';
import { newestGeneration, openGeneration } from '#infra/mongo/classifier/generation-epochs.ts';
import { releaseHold, renewHold } from '#infra/mongo/classifier/generation-holds.ts';
import {
  acquireGeneration,
  discardGeneration,
  type HeldGeneration,
  releaseGeneration,
  renewGeneration,
  storeReplay,
} from '#infra/mongo/classifier/generations.ts';
import {
  type AnsweredGeneration,
  chargeOf,
  nextStep,
  resultOf,
  resultText,
  type SettledGeneration,
} from '#shared/classifier/generation.ts';
import { generationKey, generationPreview } from '#shared/classifier/preview.ts';
import type { GenerationPreview } from '#shared/generated/classifier.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { newId } from '#shared/kernel/ids.ts';
import { type GenerationOrder, generate, inFlight, loadReferences } from './ask-model.ts';
import type { PreviewDeps } from './deps.ts';
import { preflight } from './preflight.ts';
import { IN_PROGRESS, type Signals, settle } from './settlement.ts';

const POLL_MS = 100;
/** Delay before the row is read again after a lost race (ms). */
const RACE_POLL_MS = 5;

/**
 * Returns a paid generation; equal requests share it for one day. Its life, from top to bottom:
 *
 * - One request takes the row of its key (`open`, `acquire`), makes the answer and stores it with its price and its settlement command. It
 *   does so even if its client leaves meanwhile.
 * - From then on the command alone charges (`settle`), in the settlement worker or in this process.
 * - Equal requests in any process wait for the one that makes the answer, and for the run that charges it. They return the paid answer for
 *   the rest of its day (`replay`).
 *
 * A process may die at any point. Before the answer is stored nothing is owed, and the lease expires. Afterwards the next run of the
 * command charges under the same keys.
 */
export async function paidGeneration(
  deps: PreviewDeps,
  order: GenerationOrder,
  { signal, stop }: Signals,
): Promise<GenerationPreview | Rejection> {
  const { mongo, now, timing } = deps;
  const { organizationId, actor } = order.scope;
  const key = generationKey(order.wanted, { organizationId, actorId: actor.id });
  let giveUpAt = performance.now() + timing.waitMs;
  let waitedFor: { id: string; fence: number } | null = null;
  for (;;) {
    const next = nextStep(await newestGeneration(mongo, key), { now: now(), waitedFor });
    let held: HeldGeneration | null = null;
    let waitMs = POLL_MS;
    switch (next.kind) {
      case 'replay':
        return previewOf(next.row, order);
      case 'refuse':
        return next.rejection;
      case 'settle': {
        const hasWaited = waitedFor?.id === next.row._id;
        const settled = await settle(deps, next.row, { signal, stop, giveUpAt, hasWaited });
        return isRejection(settled) ? settled : previewOf(settled, order);
      }
      case 'wait':
        waitedFor = { id: next.row._id, fence: next.row.fence };
        break;
      case 'open': {
        const wanted = { key, epoch: next.epoch, organizationId, actor, now: now(), leaseMs: timing.leaseMs };
        const opened = await open(deps, wanted, next.after);
        if (opened.kind === 'held') held = opened.held;
        if (opened.kind === 'raced') waitMs = RACE_POLL_MS;
        break;
      }
      case 'acquire':
        held = await acquireGeneration(mongo, next.row, timing.leaseMs);
        break;
      default:
        return next satisfies never;
    }
    if (held !== null) {
      const refused = await makeAnswer(deps, order, held, stop);
      if (refused !== undefined) return refused;
      // However long the answer took: an equal request that has it paid for first is waited for.
      giveUpAt = performance.now() + timing.waitMs;
      continue;
    }
    // Another process has the row: wait for its result.
    if (performance.now() >= giveUpAt) return IN_PROGRESS;
    await delay(waitMs, undefined, { signal });
  }
}

type Wanted = Omit<Parameters<typeof openGeneration>[1], '_id'>;

/** Opens the row of an epoch. Logs the settlement that became DEAD by that. */
async function open({ mongo, now, log }: PreviewDeps, wanted: Wanted, after: AnsweredGeneration | null) {
  const opened = await openGeneration(mongo, { _id: newId(now()), ...wanted }, after);
  if (opened.kind === 'held' && opened.deadCommandId !== null) {
    const about = { commandId: opened.deadCommandId, queue: 'settlement', subject: after?._id };
    log.error(about, 'command is dead: see `examhall dead`');
  }
  return opened;
}

function previewOf(row: SettledGeneration, { wanted }: GenerationOrder): GenerationPreview {
  const settlement = { ...row.charge, settledAt: row.settledAt.toISOString() };
  return generationPreview(resultOf(row), wanted.mode, settlement);
}

/**
 * Does the work of a generation's holder: loads references, runs the preflight, calls the model, stores the answer. Returns the
 * refusal, or undefined: the row then has this answer, or another holder.
 */
async function makeAnswer(
  deps: PreviewDeps,
  order: GenerationOrder,
  held: HeldGeneration,
  stop: AbortSignal,
): Promise<Rejection | undefined> {
  const stopRenewing = startRenewing(deps, held);
  try {
    const answer = await generateAnswer(deps, order, held, stop);
    if (isRejection(answer)) {
      await leave(deps, held, answer);
      return answer;
    }
    const { questions } = answer.generate;
    const charge = chargeOf({ asked: order.wanted.count, returned: questions.length, usage: answer.usage });
    await storeReplay(deps.mongo, held, { result: resultText(answer), charge, now: deps.now() });
    return undefined;
  } catch (error) {
    // Free the row without a result, so that waiting requests try themselves. If this write fails, the lease expires.
    await releaseGeneration(deps.mongo, held, null).catch(() => undefined);
    throw error;
  } finally {
    stopRenewing();
  }
}

/**
 * Frees the row of a refused generation. Deletes it if the caller is erased: the erasure may have ended before the row was stored, and then no
 * pass of it finds the row.
 */
function leave({ mongo }: PreviewDeps, held: HeldGeneration, rejection: Rejection): Promise<void> {
  const isErased = rejection.rejected === 'PERSON_ERASED';
  return isErased ? discardGeneration(mongo, held) : releaseGeneration(mongo, held, rejection);
}

/** Generates the answer. If that fails or is refused, releases the hold on the balance. */
async function generateAnswer(deps: PreviewDeps, order: GenerationOrder, held: HeldGeneration, stop: AbortSignal) {
  const holder = holderOf(held);
  try {
    const answer = await inFlight(deps, order.scope.actor.id, () => answerOf(deps, order, held, stop));
    if (isRejection(answer)) await releaseHold(deps.mongo, holder);
    return answer;
  } catch (error) {
    await releaseHold(deps.mongo, holder).catch(() => undefined);
    throw error;
  }
}

async function answerOf(deps: PreviewDeps, order: GenerationOrder, held: HeldGeneration, stop: AbortSignal) {
  const references = await loadReferences(deps, order.wanted, order.scope, stop);
  if (isRejection(references)) return references;
  const refused = await preflight(deps, order, holderOf(held), stop);
  if (refused !== undefined) return refused;
  return generate(deps, order, { previewId: held.row._id, idempotencyKey: held.row.key, references }, stop);
}

function startRenewing({ mongo, timing: { leaseMs } }: PreviewDeps, held: HeldGeneration): () => void {
  const renew = async () => {
    await renewGeneration(mongo, held, leaseMs);
    await renewHold(mongo, holderOf(held), leaseMs);
  };
  // The next renewal makes up for a failed one. Past the lease, the fence rejects our writes.
  const timer = setInterval(() => void renew().catch(() => undefined), leaseMs / 3);
  return () => clearInterval(timer);
}

function holderOf({ row, fence }: HeldGeneration) {
  return { _id: row._id, organizationId: row.organizationId, fence };
}
