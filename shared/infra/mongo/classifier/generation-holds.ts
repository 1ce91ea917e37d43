import type { ClientSession, Document } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { updateRow } from '#infra/mongo/guarded-row.ts';
import { guardedUpdate, literal, msOf, NOW_MS, nowPlus, wasAccepted } from '#infra/mongo/guarded-update.ts';
import { type Charge, type HeldAmounts, holdsAhead, REPLAY_MS } from '#shared/classifier/generation.ts';
import { generationHolds } from './collections.ts';

/** Selects the hold of a generation: that of one holder if `fence` is set, otherwise any. */
interface Holder {
  _id: string;
  organizationId: string;
  fence?: number;
}

/** Maximum number of live holds per organization. No organization needs as many, and the document stays small. */
const MAX_HOLDS = 1_000;
const LIVE: Document = { $filter: { input: '$holds', cond: { $gt: [msOf('$$this.until'), NOW_MS] } } };

/**
 * Appends a hold to its organization's line and deletes an earlier hold of the same generation. The caller must count `ahead`,
 * the holds ahead of it, against the balance as well. Of two concurrent holds one is behind the other and sees it. `full`: the
 * line already has MAX_HOLDS other holds.
 */
export async function addHold(
  mongo: Mongo,
  { _id: previewId, organizationId, fence }: Required<Holder>,
  { credits, tokens, leaseMs }: Charge & { leaseMs: number },
): Promise<{ kind: 'added'; ahead: HeldAmounts } | { kind: 'full' }> {
  const others = { $filter: { input: LIVE, cond: { $not: [isOf({ _id: previewId, organizationId })] } } };
  const own = {
    previewId: literal(previewId),
    fence: literal(fence),
    credits: literal(credits),
    tokens: literal(tokens),
    until: nowPlus(leaseMs),
  };
  const update = guardedUpdate([{ $lt: [{ $size: others }, MAX_HOLDS] }], {
    holds: { $concatArrays: [others, [own]] },
  });
  const row = await updateRow(generationHolds(mongo), { _id: organizationId, holds: [] }, update);
  if (!wasAccepted(update, row)) return { kind: 'full' };
  return { kind: 'added', ahead: holdsAhead(row, previewId) };
}

/** Returns the sum of the live holds that are now ahead of this generation's hold. `now` is in Unix milliseconds. */
export async function readHoldsAhead(mongo: Mongo, { _id, organizationId }: Holder, now: number): Promise<HeldAmounts> {
  const row = await generationHolds(mongo).findOne({ _id: organizationId }, { maxTimeMS: QUERY_LIMIT_MS });
  const live = (row?.holds ?? []).filter(({ until }) => until.getTime() > now);
  return holdsAhead({ holds: live }, _id);
}

/**
 * Extends a hold while its generation is being made. A hold that already lasts longer, because its price is owed, is never
 * shortened.
 */
export async function renewHold(mongo: Mongo, holder: Required<Holder>, leaseMs: number): Promise<void> {
  const isLonger = { $gt: [msOf('$$this.until'), { $add: [NOW_MS, leaseMs] }] };
  const until = { $cond: [isLonger, '$$this.until', nowPlus(leaseMs)] };
  await setHolds(mongo, holder, mapHolds(holder, { until }));
}

/**
 * Reduces the hold of a stored answer to its price, and extends it for as long as settlement is retried (REPLAY_MS). If the hold
 * expired meanwhile because it could not be renewed, it is added again, because the price is still owed.
 */
export async function convertHold(
  mongo: Mongo,
  holder: Required<Holder>,
  { credits, tokens }: Charge,
  session: ClientSession,
): Promise<void> {
  const change = { credits: literal(credits), tokens: literal(tokens), until: nowPlus(REPLAY_MS) };
  const own = { previewId: literal(holder._id), fence: literal(holder.fence), ...change };
  const isGone = { $eq: [{ $size: { $filter: { input: '$holds', cond: isOf(holder) } } }, 0] };
  await setHolds(
    mongo,
    holder,
    // An existing hold keeps its place, because the holds behind it have counted it.
    { $concatArrays: [mapHolds(holder, change), { $cond: [isGone, [own], []] }] },
    session,
  );
}

/**
 * Marks the hold of a stored answer once the usage service has counted its price: only the balance still has to cover it. Counting
 * it against the usage limits as well would count it twice.
 */
export async function markHoldConsumed(mongo: Mongo, holder: Holder, session: ClientSession): Promise<void> {
  await setHolds(mongo, holder, mapHolds(holder, { usageConsumed: true }), session);
}

/** Deletes a hold once its generation is paid for or will not be made. */
export async function releaseHold(mongo: Mongo, holder: Holder, session?: ClientSession): Promise<void> {
  await setHolds(mongo, holder, { $filter: { input: LIVE, cond: { $not: [isOf(holder)] } } }, session);
}

async function setHolds(
  mongo: Mongo,
  { organizationId }: Holder,
  holds: Document,
  session?: ClientSession,
): Promise<void> {
  const options = session === undefined ? { maxTimeMS: QUERY_LIMIT_MS } : { session };
  await generationHolds(mongo).updateOne({ _id: organizationId }, [{ $set: { holds } }], options);
}

/** Returns the line with these fields changed in one hold. */
function mapHolds(holder: Holder, change: Document): Document {
  const changed = { $cond: [isOf(holder), { $mergeObjects: ['$$this', change] }, '$$this'] };
  return { $map: { input: '$holds', in: changed } };
}

/** Returns the condition that an element of the line is the selected hold. */
function isOf({ _id, fence }: Holder): Document {
  const isItsOwn = { $eq: ['$$this.previewId', literal(_id)] };
  return fence === undefined ? isItsOwn : { $and: [isItsOwn, { $eq: ['$$this.fence', literal(fence)] }] };
}
