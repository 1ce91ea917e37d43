import type { Document } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { updateRow } from '#infra/mongo/guarded-row.ts';
import { guardedUpdate, literal, msOf, NOW_MS, nowPlus, wasAccepted } from '#infra/mongo/guarded-update.ts';
import type { JobSlots, OpenJobLimits } from '#shared/classifier/job.ts';
import { aiJobs, previewLeases } from './collections.ts';
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

/** Result of a request for a lease. `full`: the actor has as many previews in flight as it may have. */
type LeasedPreview = { kind: 'leased' } | { kind: 'full' };

const LIVE: Document = { $filter: { input: '$leases', cond: { $gt: [msOf('$$this.until'), NOW_MS] } } };

/**
 * Leases a place among the previews in flight of an actor for `leaseMs`. One update reads and adds, so concurrent requests at any
 * front door cannot exceed `limit`. The lease of a killed front door ends by MongoDB's clock.
 */
export async function leasePreview(
  mongo: Mongo,
  { actorId, leaseId }: PreviewLease,
  { limit, leaseMs, now }: { limit: number; leaseMs: number; now: number },
): Promise<LeasedPreview> {
  const own = { id: literal(leaseId), until: nowPlus(leaseMs) };
  const update = guardedUpdate([{ $lt: [{ $size: LIVE }, limit] }], {
    leases: { $concatArrays: [LIVE, [own]] },
    lastAt: nowPlus(0),
  });
  const row = await updateRow(previewLeases(mongo), { _id: actorId, leases: [], lastAt: new Date(now) }, update);
  return { kind: wasAccepted(update, row) ? 'leased' : 'full' };
}

/** Names one preview in flight. */
interface PreviewLease {
  actorId: string;
  leaseId: string;
}

/** Extends a lease while its preview is in flight. A lease that has ended stays ended. */
export async function renewPreview(mongo: Mongo, { actorId, leaseId }: PreviewLease, leaseMs: number): Promise<void> {
  const renewed = { id: literal(leaseId), until: nowPlus(leaseMs) };
  const leases = { $map: { input: '$leases', in: { $cond: [isOwn(leaseId), renewed, '$$this'] } } };
  await change(mongo, actorId, { leases, lastAt: nowPlus(0) });
}

/** Ends a lease, so that the actor may request another preview at once. */
export async function releasePreview(mongo: Mongo, { actorId, leaseId }: PreviewLease): Promise<void> {
  await change(mongo, actorId, { leases: { $filter: { input: LIVE, cond: { $not: [isOwn(leaseId)] } } } });
}

async function change(mongo: Mongo, actorId: string, changes: Document): Promise<void> {
  await previewLeases(mongo).updateOne({ _id: actorId }, [{ $set: changes }], { maxTimeMS: QUERY_LIMIT_MS });
}

function isOwn(leaseId: string): Document {
  return { $eq: ['$$this.id', literal(leaseId)] };
}
