import type { JobOwner } from '../../shared/infra/mongo/classifier/find-job.ts';
import type { Identity } from '../route.ts';

/** Who asks, and in which organization, on routes whose guards demand both. */
export interface JobCaller extends JobOwner {
  actorRole: string;
}

export function callerOf({ actor, organizationId }: Identity): JobCaller {
  if (actor === undefined || organizationId === undefined) throw new Error('a route without guards asked who calls');
  return { actorId: actor.id, actorRole: actor.role, organizationId };
}
