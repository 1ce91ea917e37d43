import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import { guardedUpdate, literal, wasAccepted } from '#infra/mongo/guarded-update.ts';
import { msOf, NOW_MS, nowPlus } from '#infra/mongo/server-time.ts';
import type { Generation, GenerationHolder } from '#shared/classifier/generation.ts';
import { generations } from './collections.ts';

/** A generation that its holder alone works on, until the lease is over. */
export interface HeldGeneration {
  row: Generation;
  /** A write that names an older one changes nothing. */
  fence: number;
}

export interface NewGeneration extends Pick<Generation, '_id' | 'key' | 'epoch' | 'organizationId' | 'actor'> {
  /** Unix milliseconds by MongoDB's clock. */
  now: number;
  leaseMs: number;
}

/** The first row of its epoch, held by whoever made it; null: an equal request was quicker. */
export async function openGeneration(mongo: Mongo, wanted: NewGeneration): Promise<HeldGeneration | null> {
  const { now, leaseMs, ...named } = wanted;
  const at = new Date(now);
  const row: Generation = {
    ...named,
    state: 'MAKING',
    leaseUntil: new Date(now + leaseMs),
    heldBy: 'door',
    fence: 1,
    failure: null,
    result: null,
    charge: null,
    usageConsumed: false,
    commandId: null,
    createdAt: at,
    replayUntil: null,
    settledAt: null,
    idleSince: at,
  };
  try {
    await generations(mongo).insertOne({ ...row });
    return { row, fence: row.fence };
  } catch (error) {
    if (!isDuplicateKey(error, ['key', 'epoch'])) throw error;
    return null;
  }
}

/**
 * Takes a row that nobody holds and that is not settled; null: somebody else has it, or it is settled, or gone. A worker also takes it from
 * a worker: its claim of the row's one command says that the other one has lost that.
 */
export async function takeGeneration(
  mongo: Mongo,
  previewId: string,
  { by, leaseMs }: { by: GenerationHolder; leaseMs: number },
): Promise<HeldGeneration | null> {
  const isOver = { $lte: [msOf('$leaseUntil'), NOW_MS] };
  const isFree = by === 'door' ? isOver : { $or: [isOver, { $eq: ['$heldBy', 'worker'] }] };
  const update = guardedUpdate([{ $ne: ['$state', 'SETTLED'] }, isFree], {
    leaseUntil: nowPlus(leaseMs),
    heldBy: literal(by),
    fence: { $add: ['$fence', 1] },
    failure: null,
    // It goes a while after the last try and not after the first: never from under one that is being made.
    idleSince: { $cond: [{ $eq: ['$state', 'MAKING'] }, '$$NOW', null] },
  });
  const row = await generations(mongo).findOneAndUpdate({ _id: previewId }, update.pipeline, {
    returnDocument: 'after',
    maxTimeMS: QUERY_LIMIT_MS,
  });
  return row !== null && wasAccepted(update, row) ? { row, fence: row.fence } : null;
}

/** Keeps a row that is still held by this fence. */
export async function renewGeneration(mongo: Mongo, held: HeldGeneration, leaseMs: number): Promise<void> {
  const { pipeline } = guardedUpdate([{ $eq: ['$fence', held.fence] }, { $gt: [msOf('$leaseUntil'), NOW_MS] }], {
    leaseUntil: nowPlus(leaseMs),
  });
  await generations(mongo).updateOne({ _id: held.row._id }, pipeline, { maxTimeMS: QUERY_LIMIT_MS });
}
