import type { Neighbour } from '#infra/config/settings.ts';
import {
  amountsOf,
  type Charge,
  COUNTERS,
  type Counter,
  type Generation,
  ownerKeysOf,
} from '#shared/classifier/generation.ts';
import { dataField, isSuccess, type Patience } from './call.ts';
import { callOwner, isTaken, OwnerFailed, type OwnerScope, refusal } from './owner-call.ts';

const USAGE = 'usage';

/**
 * The counters that would pass their limit; empty = it may be made.
 * @throws OwnerFailed; the signal's reason
 */
export async function checkUsage(
  service: Neighbour,
  scope: OwnerScope,
  charge: Charge,
  patience: Patience,
): Promise<Counter[]> {
  const body = { organizationId: scope.organizationId, actorId: scope.actor.id, checks: amountsOf(charge) };
  const request = { owner: USAGE, method: 'POST', path: '/v1/usage/check', body } as const;
  const reply = await callOwner(service, { ...scope, ...patience, ...request });
  if (!isSuccess(reply)) throw refusal(USAGE, reply);
  const [allowed, exceeded] = [dataField(reply.body, 'allowed'), dataField(reply.body, 'exceeded')];
  if (typeof allowed !== 'boolean') throw new OwnerFailed(USAGE, 'answered no verdict');
  if (allowed) return [];
  const named = Array.isArray(exceeded) ? COUNTERS.filter((counter) => exceeded.includes(counter)) : [];
  return named.length === 0 ? [...COUNTERS] : named;
}

/**
 * Counts what was used, once under the key.
 * @throws OwnerFailed, after which it may or may not be counted; the signal's reason
 */
async function consumeUsage(
  service: Neighbour,
  scope: OwnerScope,
  used: { charge: Charge; key: string },
  patience: Patience,
): Promise<void> {
  const body = { organizationId: scope.organizationId, actorId: scope.actor.id, items: amountsOf(used.charge) };
  const headers = { 'idempotency-key': used.key };
  const request = { owner: USAGE, method: 'POST', path: '/v1/usage/consume', headers, body } as const;
  const reply = await callOwner(service, { ...scope, ...patience, ...request });
  if (!isTaken(reply)) throw refusal(USAGE, reply);
}

const WALLET = 'wallet';

/**
 * Credits of the organization.
 * @throws OwnerFailed; the signal's reason
 */
export async function readBalance(service: Neighbour, scope: OwnerScope, patience: Patience): Promise<number> {
  const path = `${walletOf(scope)}/balance`;
  const reply = await callOwner(service, { ...scope, ...patience, owner: WALLET, method: 'GET', path });
  if (!isSuccess(reply)) throw refusal(WALLET, reply);
  const balance = dataField(reply.body, 'balance');
  if (typeof balance !== 'number' || !Number.isFinite(balance)) throw new OwnerFailed(WALLET, 'answered no balance');
  return balance;
}

/**
 * Takes credits from the organization, once under the key.
 * @throws OwnerFailed, after which they may or may not be taken; the signal's reason
 */
async function debit(
  service: Neighbour,
  scope: OwnerScope,
  { credits, key, reason }: { credits: number; key: string; reason: string },
  patience: Patience,
): Promise<void> {
  const path = `${walletOf(scope)}/transactions`;
  const body = { type: 'USAGE_DEBIT', amount: credits, reason, idempotencyKey: key };
  const reply = await callOwner(service, { ...scope, ...patience, owner: WALLET, method: 'POST', path, body });
  if (!isTaken(reply)) throw refusal(WALLET, reply);
}

/** Of a URL's path these ids are steps, encoded or not, and would ask for something else. */
function walletOf({ organizationId }: OwnerScope): string {
  if (organizationId === '.' || organizationId === '..') throw new OwnerFailed(WALLET, 'cannot be asked for this id');
  return `/v1/wallets/${encodeURIComponent(organizationId)}`;
}

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
  patience: Patience,
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
