import type { Neighbour } from '#infra/config/settings.ts';
import { amountsOf, type Charge, COUNTERS, type Counter } from '#shared/classifier/generation.ts';
import {
  callOwner,
  dataField,
  isSuccess,
  isTaken,
  OwnerFailed,
  type OwnerPatience,
  type OwnerScope,
  refusal,
} from './owner-call.ts';

const USAGE = 'usage';

/**
 * The counters that would pass their limit; empty = it may be made.
 * @throws OwnerFailed; the signal's reason
 */
export async function checkUsage(
  service: Neighbour,
  scope: OwnerScope,
  charge: Charge,
  patience: OwnerPatience,
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
export async function consumeUsage(
  service: Neighbour,
  scope: OwnerScope,
  used: { charge: Charge; key: string },
  patience: OwnerPatience,
): Promise<void> {
  const body = { organizationId: scope.organizationId, actorId: scope.actor.id, items: amountsOf(used.charge) };
  const headers = { 'idempotency-key': used.key };
  const request = { owner: USAGE, method: 'POST', path: '/v1/usage/consume', headers, body } as const;
  const reply = await callOwner(service, { ...scope, ...patience, ...request });
  if (!isTaken(reply)) throw refusal(USAGE, reply);
}
