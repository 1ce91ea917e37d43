import { setTimeout as delay } from 'node:timers/promises';
import type { Call } from '#api/route.ts';
import { newestGeneration, openGeneration } from '#infra/mongo/classifier/generation-epochs.ts';
import { releaseHold, renewHold } from '#infra/mongo/classifier/generation-holds.ts';
import {
  acquireGeneration,
  discardGeneration,
  findGeneration,
  type HeldGeneration,
  releaseGeneration,
  renewGeneration,
  storeReplay,
} from '#infra/mongo/classifier/generations.ts';
import {
  type AnsweredGeneration,
  chargeOf,
  nextStep,
  RETRY_AFTER_SECONDS,
  resultOf,
  resultText,
  type SettledGeneration,
} from '#shared/classifier/generation.ts';
import { generationKey } from '#shared/classifier/generation-request.ts';
import { generationPreview } from '#shared/classifier/preview.ts';
import type { GenerationPreview } from '#shared/generated/classifier.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { newId } from '#shared/kernel/ids.ts';
import { type GenerationOrder, generate, loadReferences } from './ask-model.ts';
import type { PreviewDeps } from './deps.ts';
import { inFlight } from './in-flight.ts';
import { preflight } from './preflight.ts';
import { settleHere, settleThroughWorker } from './settlement.ts';

const POLL_MS = 100;
/** Delay before the row is read again after a lost race (ms). */
const RACE_POLL_MS = 5;

/** An equal request holds the row for longer than this request may wait. */
const IN_PROGRESS: Rejection = { rejected: 'AI_GENERATION_IN_PROGRESS', retryAfter: RETRY_AFTER_SECONDS };

/**
 * Abort signals of a request. `signal` aborts when the client leaves and ends only waiting. `stop` aborts when the process must
 * stop, and ends paid work.
 */
type Signals = Pick<Call, 'signal' | 'stop'>;

/**
 * Returns a paid generation; equal requests share it for one day. The request that holds the row generates it, even if its client
 * leaves meanwhile. Equal requests in any process wait for the holder and return its result.
 */
export async function paidGeneration(
  deps: PreviewDeps,
  order: GenerationOrder,
  { signal, stop }: Signals,
): Promise<GenerationPreview | Rejection> {
  const { mongo, now, timing, settlementWorker } = deps;
  const { organizationId, actor } = order.scope;
  const idempotencyKey = generationKey(order.wanted, { organizationId, actorId: actor.id });
  const settledBy = settlementWorker === null ? 'door' : 'worker';
  const giveUpAt = performance.now() + timing.waitMs;
  let waitedFor: { id: string; fence: number } | null = null;
  for (;;) {
    const next = nextStep(await newestGeneration(mongo, idempotencyKey), { now: now(), settledBy, waitedFor });
    switch (next.kind) {
      case 'replay':
        return previewOf(next.row, order);
      case 'refuse':
        return next.rejection;
      case 'settle': {
        if (settlementWorker === null) throw new Error('front door without a settlement worker posted a settlement');
        const settled = await settleThroughWorker(deps, settlementWorker, next.row, signal);
        return isRejection(settled) ? settled : previewOf(settled, order);
      }
      case 'wait':
        if (performance.now() >= giveUpAt) return IN_PROGRESS;
        waitedFor = { id: next.row._id, fence: next.row.fence };
        await delay(POLL_MS, undefined, { signal });
        break;
      case 'open':
      case 'acquire': {
        const wanted = { key: idempotencyKey, organizationId, actor, now: now(), leaseMs: timing.leaseMs };
        const acquired =
          next.kind === 'open'
            ? await open(deps, { ...wanted, epoch: next.epoch }, next.after)
            : await acquireGeneration(mongo, next.row, { by: 'door', leaseMs: timing.leaseMs });
        if (acquired.kind !== 'held') {
          // Another process has the row: wait for its result.
          const isBusy = acquired.kind === 'busy';
          if (isBusy && performance.now() >= giveUpAt) return IN_PROGRESS;
          await delay(isBusy ? POLL_MS : RACE_POLL_MS, undefined, { signal });
          break;
        }
        const end = await generateAndSettle(deps, order, acquired.held, stop);
        switch (end.kind) {
          case 'settled':
            return previewOf(end.row, order);
          case 'refused':
            return end.rejection;
          case 'again':
            break;
          default:
            return end satisfies never;
        }
        break;
      }
      default:
        return next satisfies never;
    }
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

/** Result of a holder. `again`: the worker or another holder has the row now; read the row for the next step. */
type HolderEnd =
  | { kind: 'settled'; row: SettledGeneration }
  | { kind: 'refused'; rejection: Rejection }
  | { kind: 'again' };

/**
 * Does the work of a generation's holder: loads references, runs the preflight, calls the model, stores the replay. Then it charges
 * the owners, unless the settlement worker does. If the row already has an answer, the holder only charges, under the stored keys.
 *
 * A process may die at any point. Before the replay is stored nothing is owed, and the lease expires. Afterwards the next request
 * or the worker charges under the same keys.
 */
async function generateAndSettle(
  deps: PreviewDeps,
  order: GenerationOrder,
  held: HeldGeneration,
  stop: AbortSignal,
): Promise<HolderEnd> {
  const stopRenewing = startRenewing(deps, held);
  try {
    const end = await generateOrCharge(deps, order, held, stop);
    if (end.kind === 'refused') await leave(deps, held, end.rejection);
    return end;
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

async function generateOrCharge(
  deps: PreviewDeps,
  order: GenerationOrder,
  held: HeldGeneration,
  stop: AbortSignal,
): Promise<HolderEnd> {
  if (held.row.state !== 'MAKING') return chargeHere(deps, held.row);
  const answer = await generateAnswer(deps, order, held, stop);
  if (isRejection(answer)) return { kind: 'refused', rejection: answer };
  const { questions } = answer.generate;
  const charge = chargeOf({ asked: order.wanted.count, returned: questions.length, usage: answer.usage });
  const settledBy = deps.settlementWorker === null ? 'door' : 'worker';
  const stored = await storeReplay(deps.mongo, held, {
    result: resultText(answer),
    charge,
    settledBy,
    now: deps.now(),
  });
  if (stored.kind === 'lost' || settledBy === 'worker') return { kind: 'again' };
  const row = await findGeneration(deps.mongo, held.row);
  return row === null || row.state === 'MAKING' ? { kind: 'again' } : chargeHere(deps, row);
}

async function chargeHere(deps: PreviewDeps, row: AnsweredGeneration): Promise<HolderEnd> {
  const settled = await settleHere(deps, row);
  return isRejection(settled) ? { kind: 'refused', rejection: settled } : { kind: 'settled', row: settled };
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
    if (held.row.state === 'MAKING') await renewHold(mongo, holderOf(held), leaseMs);
  };
  // The next renewal makes up for a failed one. Past the lease, the fence rejects our writes.
  const timer = setInterval(() => void renew().catch(() => undefined), leaseMs / 3);
  return () => clearInterval(timer);
}

function holderOf({ row, fence }: HeldGeneration) {
  return { _id: row._id, organizationId: row.organizationId, fence };
}
