import type { ClientSession, Document } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import { guardedUpdate, literal, msOf, NOW_MS, nowPlus, wasAccepted } from '#infra/mongo/guarded-update.ts';
import { type Charge, heldBefore, REPLAY_MS } from '#shared/classifier/generation.ts';
import { generationHolds } from './collections.ts';

/** Whose hold: that of one holder of the generation, or of whichever it has. */
interface Holder {
  _id: string;
  organizationId: string;
  fence?: number;
}

/** More at once than any organization has; a document must stay small. */
const MOST_HOLDS = 1_000;
const LIVE: Document = { $filter: { input: '$holds', cond: { $gt: [msOf('$$this.until'), NOW_MS] } } };

/**
 * Puts a hold at the end of its organization's line, in place of one that the same generation left. What stands before it in the line
 * must be counted against the balance as well: of two that are held at once one is behind the other, and sees it. `full`: the
 * line is too long.
 */
export async function placeHold(
  mongo: Mongo,
  { _id: previewId, organizationId, fence }: Required<Holder>,
  { credits, tokens, leaseMs }: Charge & { leaseMs: number },
): Promise<{ kind: 'placed'; before: Charge } | { kind: 'full' }> {
  const others = { $filter: { input: LIVE, cond: { $not: [isOf({ _id: previewId, organizationId })] } } };
  const own = {
    previewId: literal(previewId),
    fence: literal(fence),
    credits: literal(credits),
    tokens: literal(tokens),
    until: nowPlus(leaseMs),
  };
  const update = guardedUpdate([{ $lt: [{ $size: others }, MOST_HOLDS] }], {
    holds: { $concatArrays: [others, [own]] },
  });
  const place = () =>
    generationHolds(mongo).findOneAndUpdate({ _id: organizationId }, update.pipeline, {
      returnDocument: 'after',
      maxTimeMS: QUERY_LIMIT_MS,
    });
  let row = await place();
  if (row === null) {
    await insertEmpty(mongo, organizationId);
    row = await place();
  }
  if (row === null || !wasAccepted(update, row)) return { kind: 'full' };
  return { kind: 'placed', before: heldBefore(row, previewId) };
}

/** What stands before this generation's hold by now. */
export async function readHeldBefore(mongo: Mongo, { _id, organizationId }: Holder, now: number): Promise<Charge> {
  const row = await generationHolds(mongo).findOne({ _id: organizationId }, { maxTimeMS: QUERY_LIMIT_MS });
  const live = (row?.holds ?? []).filter(({ until }) => until.getTime() > now);
  return heldBefore({ holds: live }, _id);
}

/** For as long as the generation is being made. One that is kept for what is owed by then is never shortened. */
export async function renewHold(mongo: Mongo, holder: Required<Holder>, leaseMs: number): Promise<void> {
  const isLonger = { $gt: [msOf('$$this.until'), { $add: [NOW_MS, leaseMs] }] };
  const until = { $cond: [isLonger, '$$this.until', nowPlus(leaseMs)] };
  await setHolds(mongo, holder, mapHolds(holder, { until }));
}

/**
 * What was made is held for as long as its settlement is tried, and no more of it than it costs. A hold that ran out meanwhile, because
 * it could not be renewed, is put back: what is owed is owed.
 */
export async function keepHold(
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
    // In its place, where it still has one: who stands behind it has counted it.
    { $concatArrays: [mapHolds(holder, change), { $cond: [isGone, [own], []] }] },
    session,
  );
}

/** It is paid for, or will not be made. */
export async function dropHold(mongo: Mongo, holder: Holder, session?: ClientSession): Promise<void> {
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

/** The line, with these fields changed of one hold. */
function mapHolds(holder: Holder, change: Document): Document {
  const changed = { $cond: [isOf(holder), { $mergeObjects: ['$$this', change] }, '$$this'] };
  return { $map: { input: '$holds', in: changed } };
}

/** Of one element of the line. */
function isOf({ _id, fence }: Holder): Document {
  const isItsOwn = { $eq: ['$$this.previewId', literal(_id)] };
  return fence === undefined ? isItsOwn : { $and: [isItsOwn, { $eq: ['$$this.fence', literal(fence)] }] };
}

/** Two first holds of one organization may race: both find the row of the one that came first. */
async function insertEmpty(mongo: Mongo, organizationId: string): Promise<void> {
  try {
    await generationHolds(mongo).insertOne({ _id: organizationId, holds: [] });
  } catch (error) {
    if (!isDuplicateKey(error)) throw error;
  }
}
