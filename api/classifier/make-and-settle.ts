import { dropHold, renewHold } from '#infra/mongo/classifier/generation-holds.ts';
import {
  findGeneration,
  giveUpGeneration,
  type HeldGeneration,
  markConsumed,
  renewGeneration,
  settleAtDoor,
  storeReplay,
} from '#infra/mongo/classifier/generations.ts';
import { chargeOwners } from '#infra/neighbours/billing.ts';
import { OwnerFailed } from '#infra/neighbours/owner-call.ts';
import { chargeOf, type Generation, settlementPending } from '#shared/classifier/generation.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { type GenerationOrder, generate } from './generate.ts';
import { loadReferences } from './load-references.ts';
import { preflight } from './preflight.ts';
import type { PreviewDeps } from './preview-deps.ts';

/**
 * What the holder of a generation does: references, preflight, model, replay stored, owners charged. One that has its answer
 * already is only charged, under the keys that it has. null: another holder has it by now.
 *
 * A process may die anywhere in it. Before the replay is stored nothing is owed, and the lease runs out; afterwards whoever
 * comes next, a request or the worker, charges under the same keys.
 */
export async function makeAndSettle(
  deps: PreviewDeps,
  order: GenerationOrder,
  held: HeldGeneration,
  signal: AbortSignal,
): Promise<Generation | Rejection | null> {
  const stopRenewing = keepRenewing(deps, held);
  try {
    const outcome = await outcomeOf(deps, order, held, signal);
    if (isRejection(outcome)) await giveUpGeneration(deps.mongo, held, outcome);
    return outcome;
  } catch (error) {
    // Those who wait try themselves: this may be a client that left. What cannot be written runs out by itself.
    await giveUpGeneration(deps.mongo, held, null).catch(() => undefined);
    throw error;
  } finally {
    stopRenewing();
  }
}

async function outcomeOf(
  deps: PreviewDeps,
  order: GenerationOrder,
  held: HeldGeneration,
  signal: AbortSignal,
): Promise<Generation | Rejection | null> {
  if (held.row.state === 'PENDING') return settle(deps, held.row);
  const made = await make(deps, order, held, signal);
  if (isRejection(made)) return made;
  // From here on the client may leave: what was made is owed.
  const { questions } = made.generate;
  const charge = chargeOf({ asked: order.wanted.count, returned: questions.length, usage: made.usage });
  const stored = await storeReplay(deps.mongo, held, { result: JSON.stringify(made), charge, now: deps.now() });
  const row = stored ? await findGeneration(deps.mongo, held.row._id) : null;
  return row === null ? null : settle(deps, row);
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

async function settle(deps: PreviewDeps, row: Generation): Promise<Generation | Rejection> {
  const { mongo, log, outboundTimeoutMs: timeoutMs } = deps;
  const { usage, wallet } = deps.neighbours;
  if (usage === null || wallet === null) return settlementPending(row._id);
  try {
    await chargeOwners({ usage, wallet }, row, () => markConsumed(mongo, row._id), { timeoutMs });
  } catch (error) {
    if (!(error instanceof OwnerFailed)) throw error;
    log.warn({ err: error, previewId: row._id }, 'a generation could not be settled yet');
    return settlementPending(row._id);
  }
  return settleAtDoor(mongo, row);
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
