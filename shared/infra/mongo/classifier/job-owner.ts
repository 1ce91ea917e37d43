import { literal } from '#infra/mongo/guarded-update.ts';

/** In whose name a job is looked for: it is nobody else's. */
export interface JobOwner {
  actorId: string;
  organizationId: string;
}

export function owns(owner: JobOwner, job: JobOwner): boolean {
  return job.actorId === owner.actorId && job.organizationId === owner.organizationId;
}

/** The same, as conditions of a guarded update. */
export function isOwners(owner: JobOwner) {
  return [{ $eq: ['$actorId', literal(owner.actorId)] }, { $eq: ['$organizationId', literal(owner.organizationId)] }];
}
