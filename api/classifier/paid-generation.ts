import { setTimeout as delay } from 'node:timers/promises';
import { dropHold, placeHold, readHeldBefore, renewHold } from '#infra/mongo/classifier/generation-holds.ts';
import {
  findGeneration,
  giveUpGeneration,
  type HeldGeneration,
  markConsumed,
  newestGeneration,
  openGeneration,
  renewGeneration,
  settleAtDoor,
  storeReplay,
  takeGeneration,
} from '#infra/mongo/classifier/generations.ts';
import { chargeOwners, checkUsage, readBalance } from '#infra/neighbours/billing.ts';
import { OwnerFailed } from '#infra/neighbours/owner-call.ts';
import {
  type Charge,
  COME_BACK_SECONDS,
  chargeOf,
  estimateOf,
  nextStep,
  type OwedGeneration,
  resultOf,
  resultText,
  type SettledGeneration,
  settlementPending,
  sumOfCharges,
} from '#shared/classifier/generation.ts';
import { generationKey } from '#shared/classifier/generation-request.ts';
import { generationPreview } from '#shared/classifier/preview.ts';
import type { GenerationPreview } from '#shared/generated/classifier.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { newId } from '#shared/kernel/ids.ts';
import { type GenerationOrder, generate, loadReferences } from './ask-model.ts';
import type { PreviewDeps } from './deps.ts';

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
    switch (next.kind) {
      case 'replay':
        return previewOf(next.row, order);
      case 'refuse':
        return next.rejection;
      case 'wait':
        if (performance.now() >= giveUpAt) {
          return { rejected: 'AI_GENERATION_IN_PROGRESS', retryAfter: COME_BACK_SECONDS };
        }
        waitedFor = { id: next.row._id, fence: next.row.fence };
        await delay(LOOK_MS, undefined, { signal });
        break;
      case 'open':
      case 'take': {
        const named = { key, organizationId, actor, now: now(), leaseMs: patience.leaseMs };
        const taken =
          next.kind === 'open'
            ? await openGeneration(mongo, { _id: newId(now()), epoch: next.epoch, ...named })
            : await takeGeneration(mongo, next.row._id, { by: 'door', leaseMs: patience.leaseMs });
        if (taken.kind !== 'held') {
          // Somebody else was quicker: what they hold is what we wait for, from now on.
          await delay(NEXT_LOOK_MS, undefined, { signal });
          break;
        }
        const end = await makeAndSettle(deps, order, taken.held, signal);
        switch (end.kind) {
          case 'settled':
            return previewOf(end.row, order);
          case 'refused':
            return end.rejection;
          case 'lost':
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

function previewOf(row: SettledGeneration, { wanted }: GenerationOrder): GenerationPreview {
  const settlement = { ...row.charge, settledAt: row.settledAt.toISOString() };
  return generationPreview(resultOf(row), wanted.mode, settlement);
}

/** How a holder ends; `lost`: another one has the row by now. */
type HolderEnd =
  | { kind: 'settled'; row: SettledGeneration }
  | { kind: 'refused'; rejection: Rejection }
  | { kind: 'lost' };

/**
 * What the holder of a generation does: references, preflight, model, replay stored, owners charged. One that has its answer
 * already is only charged, under the keys that it has.
 *
 * A process may die anywhere in it. Before the replay is stored nothing is owed, and the lease runs out; afterwards whoever
 * comes next, a request or the worker, charges under the same keys.
 */
async function makeAndSettle(
  deps: PreviewDeps,
  order: GenerationOrder,
  held: HeldGeneration,
  signal: AbortSignal,
): Promise<HolderEnd> {
  const stopRenewing = keepRenewing(deps, held);
  try {
    const end = await endOf(deps, order, held, signal);
    if (end.kind === 'refused') await giveUpGeneration(deps.mongo, held, end.rejection);
    return end;
  } catch (error) {
    // Those who wait try themselves: this may be a client that left. What cannot be written runs out by itself.
    await giveUpGeneration(deps.mongo, held, null).catch(() => undefined);
    throw error;
  } finally {
    stopRenewing();
  }
}

async function endOf(
  deps: PreviewDeps,
  order: GenerationOrder,
  held: HeldGeneration,
  signal: AbortSignal,
): Promise<HolderEnd> {
  if (held.row.state === 'PENDING') return settle(deps, held.row);
  const made = await make(deps, order, held, signal);
  if (isRejection(made)) return { kind: 'refused', rejection: made };
  // From here on the client may leave: what was made is owed.
  const { questions } = made.generate;
  const charge = chargeOf({ asked: order.wanted.count, returned: questions.length, usage: made.usage });
  const stored = await storeReplay(deps.mongo, held, { result: resultText(made), charge, now: deps.now() });
  const row = stored.kind === 'stored' ? await findGeneration(deps.mongo, held.row._id) : null;
  return row === null || row.state === 'MAKING' ? { kind: 'lost' } : settle(deps, row);
}

/** Whatever keeps it from being made frees what it held of the balance. */
async function make(deps: PreviewDeps, order: GenerationOrder, held: HeldGeneration, signal: AbortSignal) {
  const holder = holderOf(held);
  try {
    const made = await answerOf(deps, order, held, signal);
    if (isRejection(made)) await dropHold(deps.mongo, holder);
    return made;
  } catch (error) {
    await dropHold(deps.mongo, holder).catch(() => undefined);
    throw error;
  }
}

async function answerOf(deps: PreviewDeps, order: GenerationOrder, held: HeldGeneration, signal: AbortSignal) {
  const references = await loadReferences(deps, order.wanted, order.scope, signal);
  if (isRejection(references)) return references;
  const refused = await preflight(deps, order, holderOf(held), signal);
  if (refused !== undefined) return refused;
  return generate(deps, order, { previewId: held.row._id, references }, signal);
}

/** Looks at what others hold, before a refusal is believed. */
const MOST_LOOKS = 5;

/**
 * Whether the limits and the balance allow the order beside everything that its organization has in flight. The hold is placed before the
 * owners are asked: what was held earlier is counted, and what is held later counts us.
 */
async function preflight(
  deps: PreviewDeps,
  order: GenerationOrder,
  holder: { _id: string; organizationId: string; fence: number },
  signal: AbortSignal,
): Promise<Rejection | undefined> {
  const estimate = estimateOf(order.wanted.count);
  const hold = await placeHold(deps.mongo, holder, { ...estimate, leaseMs: deps.patience.leaseMs });
  if (hold.kind === 'full') return { rejected: 'AI_GENERATION_IN_PROGRESS', retryAfter: COME_BACK_SECONDS };
  let { before } = hold;
  for (let look = 1; ; look++) {
    const refused = await askOwners(deps, order, sumOfCharges([before, estimate]), signal);
    if (refused === undefined || refused.rejected === 'AI_OWNER_UNAVAILABLE') return refused;
    // What stood before may have been paid for between the two looks, and was then counted twice.
    const since: Charge = await readHeldBefore(deps.mongo, holder, deps.now());
    const isLess = since.credits < before.credits || since.tokens < before.tokens;
    if (!isLess || look === MOST_LOOKS) return refused;
    before = since;
  }
}

async function askOwners(
  { neighbours, outboundTimeoutMs: timeoutMs }: PreviewDeps,
  { scope }: GenerationOrder,
  needed: Charge,
  signal: AbortSignal,
): Promise<Rejection | undefined> {
  const { usage, wallet } = neighbours;
  if (usage === null || wallet === null) return { rejected: 'AI_OWNER_UNAVAILABLE' };
  const patience = { timeoutMs, signal };
  try {
    const [exceeded, balance] = await Promise.all([
      checkUsage(usage, scope, needed, patience),
      readBalance(wallet, scope, patience),
    ]);
    if (exceeded.length > 0) {
      return { rejected: 'AI_USAGE_LIMIT_EXCEEDED', message: `A usage limit is reached: ${exceeded.join(', ')}` };
    }
    return balance < needed.credits ? { rejected: 'AI_WALLET_INSUFFICIENT' } : undefined;
  } catch (error) {
    if (!(error instanceof OwnerFailed)) throw error;
    const { retryAfterMs } = error;
    return {
      rejected: 'AI_OWNER_UNAVAILABLE',
      ...(retryAfterMs === null ? {} : { retryAfter: Math.ceil(retryAfterMs / 1_000) }),
    };
  }
}

/** Charges the owners for an answer that is stored. A row that the worker has settled meanwhile is charged again under the same keys. */
async function settle(deps: PreviewDeps, row: OwedGeneration | SettledGeneration): Promise<HolderEnd> {
  const { mongo, log, outboundTimeoutMs: timeoutMs } = deps;
  const { usage, wallet } = deps.neighbours;
  const pending: HolderEnd = { kind: 'refused', rejection: settlementPending(row._id) };
  if (usage === null || wallet === null) return pending;
  try {
    await chargeOwners({ usage, wallet }, row, () => markConsumed(mongo, row._id), { timeoutMs });
  } catch (error) {
    if (!(error instanceof OwnerFailed)) throw error;
    log.warn({ err: error, previewId: row._id }, 'a generation could not be settled yet');
    return pending;
  }
  return { kind: 'settled', row: await settleAtDoor(mongo, row) };
}

function keepRenewing({ mongo, patience: { leaseMs } }: PreviewDeps, held: HeldGeneration): () => void {
  const renew = async () => {
    await renewGeneration(mongo, held, leaseMs);
    if (held.row.state === 'MAKING') await renewHold(mongo, holderOf(held), leaseMs);
  };
  // One that fails is made up for by the next; past the lease the fence keeps us out.
  const timer = setInterval(() => void renew().catch(() => undefined), leaseMs / 3);
  return () => clearInterval(timer);
}

function holderOf({ row, fence }: HeldGeneration) {
  return { _id: row._id, organizationId: row.organizationId, fence };
}
