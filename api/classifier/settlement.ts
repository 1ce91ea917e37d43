import { ringAndWait } from '#api/ring-and-wait.ts';
import { inCausalOrder } from '#infra/mongo/causal-read.ts';
import { findGeneration, markConsumedAtDoor, settleAtDoor } from '#infra/mongo/classifier/generations.ts';
import { makeDueNow, readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { chargeOwners } from '#infra/neighbours/billing.ts';
import { OwnerFailed } from '#infra/neighbours/owner-call.ts';
import { settlementCommand } from '#shared/classifier/commands.ts';
import {
  type AnsweredGeneration,
  type Generation,
  type OwedGeneration,
  type SettledGeneration,
  settlementPending,
} from '#shared/classifier/generation.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import type { PreviewDeps, SettlementWorker } from './deps.ts';

/**
 * Two ways to settle a stored answer: through the worker or at this front door. Both end in the same calls (`chargeOwners`) under
 * the keys of the generation. They may therefore follow each other, and either may be interrupted anywhere.
 */

/** The settled generation, or the rejection after which the client must send the same request again. */
type SettlementResult = SettledGeneration | Rejection;

/**
 * Rings the settlement worker and waits for it, until the client leaves or the wait times out. A settlement that is backing off
 * becomes due at once. If the worker is late, it continues without this request, which is answered as pending.
 */
export async function settleThroughWorker(
  { mongo }: Pick<PreviewDeps, 'mongo'>,
  worker: SettlementWorker,
  row: OwedGeneration,
  signal: AbortSignal,
): Promise<SettlementResult> {
  const command = await makeDueNow(mongo, settlementCommand(row));
  if (command === null) return settledOrPending(row, await findGeneration(mongo, row));
  const hasSettled = await ringAndWait({ mongo, ...worker }, command, { timeoutMs: worker.waitMs, signal });
  const now = await findGeneration(mongo, row);
  if (now?.state === 'SETTLED' || !hasSettled) return settledOrPending(row, now);
  // The commit of the settlement may be visible on the shard of the command alone: the second read waits for it.
  const after = await inCausalOrder(mongo, async (session) => {
    await readCommand(mongo, command, session);
    return findGeneration(mongo, row, session);
  });
  return settledOrPending(row, after);
}

function settledOrPending({ _id }: OwedGeneration, now: Generation | null): SettlementResult {
  return now?.state === 'SETTLED' ? now : settlementPending(_id);
}

/**
 * Calls the usage and wallet services from this front door, which holds the row. A row that was settled meanwhile is charged again
 * under the same keys. Returns AI_SETTLEMENT_PENDING if a service fails.
 */
export async function settleHere(
  { mongo, log, neighbours, outboundTimeoutMs: timeoutMs }: PreviewDeps,
  row: AnsweredGeneration,
): Promise<SettlementResult> {
  const { usage, wallet } = neighbours;
  if (usage === null || wallet === null) return settlementPending(row._id);
  try {
    await chargeOwners({ usage, wallet }, row, () => markConsumedAtDoor(mongo, row), { timeoutMs });
  } catch (error) {
    if (!(error instanceof OwnerFailed)) throw error;
    log.warn({ err: error, previewId: row._id }, 'settling a generation failed; 503 returned');
    return settlementPending(row._id);
  }
  return settleAtDoor(mongo, row);
}
