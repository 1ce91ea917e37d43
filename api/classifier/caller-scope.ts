import type { OwnerScope } from '../../shared/infra/owners/owner-call.ts';
import type { Identity } from '../route.ts';

/** Who asks, and in which organization; the guards of every preview route demand both. */
export function callerScope({ actor, organizationId }: Identity): OwnerScope {
  if (actor === undefined || organizationId === undefined) throw new Error('a preview route lacks its guards');
  return { organizationId, actor };
}
