import type { Document } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { updateRow } from '#infra/mongo/guarded-row.ts';
import { guardedUpdate, literal, msOf, NOW_MS, nowPlus, wasAccepted } from '#infra/mongo/guarded-update.ts';
import { previewLeases } from './collections.ts';

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
export interface PreviewLease {
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
