import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import type { JobSlots, OpenJobLimits } from '#shared/classifier/job.ts';
import { aiJobs } from './collections.ts';
import type { JobOwner } from './jobs.ts';

/** `full`: the actor or the organization has as many open jobs as it may have. */
type FoundSlots = { kind: 'free'; slots: JobSlots } | { kind: 'full'; whose: 'actor' | 'organization' };

/** The jobs that hold slots: a partial index contains them, and a job that ends leaves it. */
const SLOTTED = { open: true, slotted: true } as const;

/**
 * Returns a slot of the actor and one of the organization that no open job holds. It reserves nothing: the unique indexes refuse
 * the second of two jobs with one slot, and its caller reads the free slots again. A job frees its slots by the write that ends it.
 */
export async function findFreeSlots(mongo: Mongo, owner: JobOwner, limits: OpenJobLimits): Promise<FoundSlots> {
  const { actorId, organizationId } = owner;
  const [ofActor, ofOrganization] = await Promise.all([
    aiJobs(mongo)
      .find({ actorId, ...SLOTTED }, { hint: 'slot_of_actor', projection: { actorSlot: 1 }, maxTimeMS: QUERY_LIMIT_MS })
      .toArray(),
    aiJobs(mongo)
      .find(
        { organizationId, ...SLOTTED },
        { hint: 'slot_of_organization', projection: { organizationSlot: 1 }, maxTimeMS: QUERY_LIMIT_MS },
      )
      .toArray(),
  ]);
  const actorSlot = freeSlot(
    ofActor.map((job) => job.actorSlot),
    limits.perActor,
  );
  if (actorSlot === null) return { kind: 'full', whose: 'actor' };
  const organizationSlot = freeSlot(
    ofOrganization.map((job) => job.organizationSlot),
    limits.perOrganization,
  );
  if (organizationSlot === null) return { kind: 'full', whose: 'organization' };
  return { kind: 'free', slots: { actorSlot, organizationSlot } };
}

/** Returns a random free slot below `limit`, so that concurrent requests rarely choose the same one; null if all are taken. */
function freeSlot(taken: readonly (number | undefined)[], limit: number): number | null {
  // Slots of a higher limit, which was lowered since, count too.
  if (taken.length >= limit) return null;
  const held = new Set(taken);
  const free = Array.from({ length: limit }, (_, slot) => slot).filter((slot) => !held.has(slot));
  return free[Math.floor(Math.random() * free.length)] ?? null;
}
