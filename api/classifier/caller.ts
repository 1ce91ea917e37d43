import type { Identity } from '#api/route.ts';
import type { JobOwner } from '#infra/mongo/classifier/jobs.ts';
import type { OwnerScope } from '#infra/neighbours/owner-call.ts';

/** Who asks, and in which organization: the guards of every route of jobs and previews demand both. */
export interface Caller extends JobOwner {
  actorRole: string;
}

export function callerOf({ actor, organizationId }: Identity): Caller {
  if (actor === undefined || organizationId === undefined) throw new Error('a route without guards asked who calls');
  return { actorId: actor.id, actorRole: actor.role, organizationId };
}

/** The same, as owners are called in its name. */
export function scopeOf(identity: Identity): OwnerScope {
  const { actorId, actorRole, organizationId } = callerOf(identity);
  return { organizationId, actor: { id: actorId, role: actorRole } };
}
