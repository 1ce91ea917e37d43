import { addHold, readHoldsAhead } from '#infra/mongo/classifier/generation-holds.ts';
import { checkUsage, readBalance } from '#infra/neighbours/billing.ts';
import { OwnerFailed } from '#infra/neighbours/owner-call.ts';
import {
  type Charge,
  estimateOf,
  type HeldAmounts,
  RETRY_AFTER_SECONDS,
  sumOfCharges,
} from '#shared/classifier/generation.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import type { GenerationOrder } from './ask-model.ts';
import type { PreviewDeps } from './deps.ts';

/** Limit of reads of the holds ahead before a refusal is final. */
const MAX_READS = 5;

/**
 * Checks whether usage limits and balance cover the order plus everything that its organization has in flight. Returns the
 * rejection, or undefined if they do. The hold is added before the usage and wallet services are called: it counts the holds ahead
 * of it and is counted by later ones.
 */
export async function preflight(
  deps: PreviewDeps,
  order: GenerationOrder,
  holder: { _id: string; organizationId: string; fence: number },
  signal: AbortSignal,
): Promise<Rejection | undefined> {
  const estimate = estimateOf(order.wanted.count);
  const hold = await addHold(deps.mongo, holder, { ...estimate, leaseMs: deps.timing.leaseMs });
  if (hold.kind === 'full') return { rejected: 'AI_GENERATION_IN_PROGRESS', retryAfter: RETRY_AFTER_SECONDS };
  let { ahead } = hold;
  for (let reads = 1; ; reads++) {
    const refused = await checkOwners(deps, order, neededFor(estimate, ahead), signal);
    if (refused === undefined || refused.rejected === 'AI_OWNER_UNAVAILABLE') return refused;
    // A hold ahead of ours may have been charged between reading the holds and reading the balance; it was then counted twice.
    const current: HeldAmounts = await readHoldsAhead(deps.mongo, holder, deps.now());
    if (!isLess(current, ahead) || reads === MAX_READS) return refused;
    ahead = current;
  }
}

function neededFor(estimate: Charge, ahead: HeldAmounts): HeldAmounts {
  return { balance: ahead.balance + estimate.credits, usage: sumOfCharges([ahead.usage, estimate]) };
}

function isLess(current: HeldAmounts, ahead: HeldAmounts): boolean {
  const [now, then] = [current.usage, ahead.usage];
  return current.balance < ahead.balance || now.credits < then.credits || now.tokens < then.tokens;
}

async function checkOwners(
  { neighbours, outboundTimeoutMs: timeoutMs, log }: PreviewDeps,
  { scope }: GenerationOrder,
  needed: HeldAmounts,
  signal: AbortSignal,
): Promise<Rejection | undefined> {
  const { usage, wallet } = neighbours;
  if (usage === null || wallet === null) return { rejected: 'AI_OWNER_UNAVAILABLE' };
  const limits = { timeoutMs, signal };
  try {
    const [exceeded, balance] = await Promise.all([
      checkUsage(usage, scope, needed.usage, limits),
      readBalance(wallet, scope, limits),
    ]);
    if (exceeded.length > 0) {
      return { rejected: 'AI_USAGE_LIMIT_EXCEEDED', message: `A usage limit is reached: ${exceeded.join(', ')}` };
    }
    return balance < needed.balance ? { rejected: 'AI_WALLET_INSUFFICIENT' } : undefined;
  } catch (error) {
    if (!(error instanceof OwnerFailed)) throw error;
    log.warn({ err: error }, 'checking usage and balance of a generation failed; 503 returned');
    const { retryAfterMs } = error;
    return {
      rejected: 'AI_OWNER_UNAVAILABLE',
      ...(retryAfterMs === null ? {} : { retryAfter: Math.ceil(retryAfterMs / 1_000) }),
    };
  }
}
