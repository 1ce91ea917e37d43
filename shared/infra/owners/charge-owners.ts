import type { Neighbour } from '#infra/config/settings.ts';
import { type Generation, ownerKeysOf } from '#shared/classifier/generation.ts';
import type { OwnerPatience } from './owner-call.ts';
import { consumeUsage } from './usage.ts';
import { debit } from './wallet.ts';

/** The two that a generation is paid to. */
export interface Payees {
  usage: Neighbour;
  wallet: Neighbour;
}

/**
 * Has both owners take what a generation costs, usage first; each under its own key, so that it may be done again from any point and
 * by anybody. `consumed` notes that the first of them has it.
 * @throws OwnerFailed; the signal's reason; what `consumed` throws
 */
export async function chargeOwners(
  { usage, wallet }: Payees,
  row: Pick<Generation, '_id' | 'organizationId' | 'actor' | 'charge' | 'usageConsumed'>,
  consumed: () => Promise<void>,
  patience: OwnerPatience,
): Promise<void> {
  const { _id: previewId, organizationId, actor, charge } = row;
  if (charge === null) throw new Error(`generation ${previewId} costs nothing yet`);
  const [scope, keys] = [{ organizationId, actor }, ownerKeysOf(previewId)];
  if (!row.usageConsumed) {
    await consumeUsage(usage, scope, { charge, key: keys.usage }, patience);
    await consumed();
  }
  const reason = `AI question generation ${previewId}`;
  await debit(wallet, scope, { credits: charge.credits, key: keys.debit, reason }, patience);
}
