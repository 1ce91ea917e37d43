import type { Neighbour } from '#infra/config/settings.ts';
import {
  amountsOf,
  type Charge,
  COUNTERS,
  type Counter,
  type Generation,
  ownerKeysOf,
} from '#shared/classifier/generation.ts';
import { type CallLimits, dataField, isSuccess } from './call.ts';
import { callOwner, inAnotherShape, isAccepted, OwnerFailed, type OwnerScope, refusal } from './owner-call.ts';

const USAGE = 'usage';

/**
 * Returns the counters that this charge would raise above their limits; an empty list if the charge is allowed.
 *
 * @throws OwnerFailed; the signal's reason
 */
export async function checkUsage(
  service: Neighbour,
  scope: OwnerScope,
  charge: Charge,
  limits: CallLimits,
): Promise<Counter[]> {
  const body = { organizationId: scope.organizationId, actorId: scope.actor.id, checks: amountsOf(charge) };
  const request = { owner: USAGE, method: 'POST', path: '/v1/usage/check', body } as const;
  const reply = await callOwner(service, { ...scope, ...limits, ...request });
  if (!isSuccess(reply)) throw refusal(USAGE, reply);
  const [allowed, exceeded] = [dataField(reply.body, 'allowed'), dataField(reply.body, 'exceeded')];
  if (typeof allowed !== 'boolean') throw inAnotherShape(USAGE, reply, '`data.allowed`');
  if (allowed) return [];
  const named = Array.isArray(exceeded) ? COUNTERS.filter((counter) => exceeded.includes(counter)) : [];
  return named.length === 0 ? [...COUNTERS] : named;
}

/**
 * Charges the usage counters. The service applies a key once.
 *
 * @throws OwnerFailed, after which the usage may or may not be counted; the signal's reason
 */
async function consumeUsage(
  service: Neighbour,
  scope: OwnerScope,
  used: { charge: Charge; key: string },
  limits: CallLimits,
): Promise<void> {
  const body = { organizationId: scope.organizationId, actorId: scope.actor.id, items: amountsOf(used.charge) };
  const headers = { 'idempotency-key': used.key };
  const request = { owner: USAGE, method: 'POST', path: '/v1/usage/consume', headers, body } as const;
  const reply = await callOwner(service, { ...scope, ...limits, ...request });
  if (!isAccepted(reply)) throw refusal(USAGE, reply);
}

const WALLET = 'wallet';

/**
 * Returns the organization's balance, in credits.
 *
 * @throws OwnerFailed; the signal's reason
 */
export async function readBalance(service: Neighbour, scope: OwnerScope, limits: CallLimits): Promise<number> {
  const path = `${walletOf(scope)}/balance`;
  const reply = await callOwner(service, { ...scope, ...limits, owner: WALLET, method: 'GET', path });
  if (!isSuccess(reply)) throw refusal(WALLET, reply);
  const balance = dataField(reply.body, 'balance');
  if (typeof balance !== 'number' || !Number.isFinite(balance)) throw inAnotherShape(WALLET, reply, '`data.balance`');
  return balance;
}

/**
 * Debits credits from the organization. The service applies a key once.
 *
 * @throws OwnerFailed, after which the credits may or may not be debited; the signal's reason
 */
async function debit(
  service: Neighbour,
  scope: OwnerScope,
  { credits, key, reason }: { credits: number; key: string; reason: string },
  limits: CallLimits,
): Promise<void> {
  const path = `${walletOf(scope)}/transactions`;
  const body = { type: 'USAGE_DEBIT', amount: credits, reason, idempotencyKey: key };
  const reply = await callOwner(service, { ...scope, ...limits, owner: WALLET, method: 'POST', path, body });
  if (!isAccepted(reply)) throw refusal(WALLET, reply);
}

/**
 * Returns the path of the organization's wallet. Refuses the ids `.` and `..`: they are path segments even when percent-encoded and
 * would change the requested URL.
 */
function walletOf({ organizationId }: OwnerScope): string {
  if (organizationId === '.' || organizationId === '..')
    throw new OwnerFailed(WALLET, 'has no path for this organization id');
  return `/v1/wallets/${encodeURIComponent(organizationId)}`;
}

/** The two services that a generation is paid to. */
export interface Payees {
  usage: Neighbour;
  wallet: Neighbour;
}

/**
 * Charges a generation to both owners, usage first. Each charge has its own key, so any process can repeat it from any point.
 * `consumed` is called once usage is charged, to store that step.
 *
 * @throws OwnerFailed; the signal's reason; any error of `consumed`
 */
export async function chargeOwners(
  { usage, wallet }: Payees,
  row: Pick<Generation, '_id' | 'organizationId' | 'actor' | 'charge' | 'usageConsumed'>,
  consumed: () => Promise<void>,
  limits: CallLimits,
): Promise<void> {
  const { _id: previewId, organizationId, actor, charge } = row;
  if (charge === null) throw new Error(`generation ${previewId} costs nothing yet`);
  const [scope, keys] = [{ organizationId, actor }, ownerKeysOf(previewId)];
  if (!row.usageConsumed) {
    await consumeUsage(usage, scope, { charge, key: keys.usage }, limits);
    await consumed();
  }
  const reason = `AI question generation ${previewId}`;
  await debit(wallet, scope, { credits: charge.credits, key: keys.debit, reason }, limits);
}
