import type { ClientSession, Document } from 'mongodb';
import { readIn } from '#infra/mongo/causal-read.ts';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { guardedUpdate, literal, msOf, NOW_MS, nowPlus, Stale, wasAccepted } from '#infra/mongo/guarded-update.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { postCommandIn } from '#infra/mongo/mailbox/mailbox.ts';
import { FRONT_DOOR_BUDGET_MS, inTransaction } from '#infra/mongo/transaction.ts';
import { settlementOrder } from '#shared/classifier/commands.ts';
import {
  type Charge,
  type ClosedAs,
  failureOf,
  type Generation,
  REPLAY_MS,
  SETTLEMENT_ATTEMPTS,
} from '#shared/classifier/generation.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { type GenerationKey, generations } from './collections.ts';
import { convertHold, markHoldConsumed, releaseHold } from './generation-holds.ts';

/** A generation whose answer only its holder makes until the lease ends. */
export interface HeldGeneration {
  row: Generation;
  /** Identifies the holder: a write with an older fence changes nothing. */
  fence: number;
}

export async function findGeneration(
  mongo: Mongo,
  { _id, key }: GenerationKey,
  session?: ClientSession,
): Promise<Generation | null> {
  return generations(mongo).findOne({ _id, key }, { ...readIn(session), maxTimeMS: QUERY_LIMIT_MS });
}

/** Returns a generation whose key is unknown, or null. Every shard searches for it. */
export async function findGenerationById(
  mongo: Mongo,
  previewId: string,
  session?: ClientSession,
): Promise<Generation | null> {
  return generations(mongo).findOne({ _id: previewId }, { ...readIn(session), maxTimeMS: QUERY_LIMIT_MS });
}

/** Condition: the day of this unpaid answer was found over. */
export const IS_EXPIRED: Document = { $and: [{ $eq: ['$state', 'PENDING'] }, { $eq: ['$closed', 'EXPIRED'] }] };

/**
 * Returns a generation for the run of its settlement command, or null. If its answer is unpaid and its day is over by MongoDB's clock,
 * it is closed first: EXPIRED. From then on, no clock opens it again.
 */
export async function findOrClose(
  mongo: Mongo,
  { _id, key }: GenerationKey,
  session: ClientSession,
): Promise<Generation | null> {
  const isOver = { $lte: [msOf('$replayUntil'), NOW_MS] };
  const { pipeline } = guardedUpdate([{ $eq: ['$state', 'PENDING'] }, { $eq: ['$closed', null] }, isOver], {
    closed: literal('EXPIRED' satisfies ClosedAs),
  });
  const options = { returnDocument: 'after', maxTimeMS: QUERY_LIMIT_MS, session } as const;
  return generations(mongo).findOneAndUpdate({ _id, key }, pipeline, options);
}

/** Acquires a row without an answer whose lease is over by MongoDB's clock. Returns null if it has an answer or another holder. */
export async function acquireGeneration(
  mongo: Mongo,
  { _id, key }: GenerationKey,
  leaseMs: number,
): Promise<HeldGeneration | null> {
  const isFree = { $lte: [msOf('$leaseUntil'), NOW_MS] };
  const update = guardedUpdate([{ $eq: ['$state', 'MAKING'] }, isFree], {
    leaseUntil: nowPlus(leaseMs),
    fence: { $add: ['$fence', 1] },
    failure: null,
    // It expires a while after it was last acquired, not after it was created. So it never expires while its answer is being made.
    idleSince: '$$NOW',
  });
  const row = await generations(mongo).findOneAndUpdate({ _id, key }, update.pipeline, {
    returnDocument: 'after',
    maxTimeMS: QUERY_LIMIT_MS,
  });
  return row !== null && wasAccepted(update, row) ? { row, fence: row.fence } : null;
}

/** Extends the lease of a row if this fence still holds it. */
export async function renewGeneration(mongo: Mongo, held: HeldGeneration, leaseMs: number): Promise<void> {
  const { pipeline } = guardedUpdate([{ $eq: ['$fence', held.fence] }, { $gt: [msOf('$leaseUntil'), NOW_MS] }], {
    leaseUntil: nowPlus(leaseMs),
  });
  const { _id, key } = held.row;
  await generations(mongo).updateOne({ _id, key }, pipeline, { maxTimeMS: QUERY_LIMIT_MS });
}

/**
 * Releases a row without an answer. With a rejection, the requests that waited for this holder return the same rejection. With null
 * they acquire the row themselves. Changes nothing if the caller is no longer the holder.
 */
export async function releaseGeneration(
  mongo: Mongo,
  { row, fence }: HeldGeneration,
  rejection: Rejection | null,
): Promise<void> {
  const failure = rejection === null ? null : failureOf(fence, rejection);
  const { pipeline } = guardedUpdate([{ $eq: ['$fence', fence] }, { $eq: ['$state', 'MAKING'] }], {
    leaseUntil: '$$NOW',
    failure: literal(failure),
  });
  const { _id, key } = row;
  await generations(mongo).updateOne({ _id, key }, pipeline, { maxTimeMS: QUERY_LIMIT_MS });
}

/** Deletes the row of a holder that has no answer. Does nothing if the caller is no longer the holder. */
export async function discardGeneration(mongo: Mongo, { row: { _id, key }, fence }: HeldGeneration): Promise<void> {
  await generations(mongo).deleteOne({ _id, key, fence, state: 'MAKING' }, { maxTimeMS: QUERY_LIMIT_MS });
}

/** The answer of a model with its price. */
interface PricedAnswer {
  /** JSON text, by `resultText`. */
  result: string;
  charge: Charge;
  /** Unix milliseconds by MongoDB's clock. */
  now: number;
}

/**
 * Changes MAKING to PENDING in one commit: stores the answer with its price, extends the hold of that price, and posts the
 * settlement command, which is due at once. Stores nothing if another holder has the row by now.
 */
export async function storeReplay(
  mongo: Mongo,
  { row, fence }: HeldGeneration,
  { result, charge, now }: PricedAnswer,
): Promise<void> {
  const command = newCommand({ ...settlementOrder(row), maxAttempts: SETTLEMENT_ATTEMPTS, now });
  await inTransaction(mongo, FRONT_DOOR_BUDGET_MS, async (session) => {
    const { pipeline } = guardedUpdate([{ $eq: ['$fence', fence] }, { $eq: ['$state', 'MAKING'] }], {
      state: 'PENDING' satisfies Generation['state'],
      result: literal(result),
      charge: literal(charge),
      commandId: literal(command._id),
      replayUntil: nowPlus(REPLAY_MS),
      // Without `idleSince` the row never expires, so an unpaid answer is not lost.
      idleSince: null,
      leaseUntil: '$$NOW',
    });
    const { _id, key } = row;
    const written = await generations(mongo).updateOne({ _id, key }, pipeline, { session });
    if (written.modifiedCount !== 1) return;
    await convertHold(mongo, row, charge, session);
    await postCommandIn(mongo, session, command);
  });
}

/**
 * Records that the usage service has counted the consumption, on the row and on its hold. Runs in the checkpoint of the command that
 * charges it, whose fence excludes a late run.
 *
 * @throws Stale if no row has this key: an erasure has replaced the key since the row was read
 */
export async function markConsumed(
  mongo: Mongo,
  { _id, key, organizationId }: GenerationKey & Pick<Generation, 'organizationId'>,
  session: ClientSession,
): Promise<void> {
  const { pipeline } = guardedUpdate([{ $eq: ['$state', 'PENDING'] }], { usageConsumed: true });
  await updateByKey(mongo, { _id, key }, pipeline, session);
  await markHoldConsumed(mongo, { _id, organizationId }, session);
}

/**
 * Changes PENDING to SETTLED once both the usage and the wallet service are done. From now on the answer may be returned, and its
 * hold is released.
 *
 * @throws Stale as `markConsumed` does
 */
export async function markSettled(
  mongo: Mongo,
  { _id, key, organizationId }: GenerationKey & Pick<Generation, 'organizationId'>,
  session: ClientSession,
): Promise<void> {
  const { pipeline } = guardedUpdate([{ $eq: ['$state', 'PENDING'] }], {
    state: 'SETTLED' satisfies Generation['state'],
    usageConsumed: true,
    settledAt: '$$NOW',
    replayUntil: nowPlus(REPLAY_MS),
  });
  await updateByKey(mongo, { _id, key }, pipeline, session);
  await releaseHold(mongo, { _id, organizationId }, session);
}

async function updateByKey(
  mongo: Mongo,
  { _id, key }: GenerationKey,
  pipeline: Document[],
  session: ClientSession,
): Promise<void> {
  const { matchedCount } = await generations(mongo).updateOne({ _id, key }, pipeline, { session });
  if (matchedCount !== 1) throw new Stale(`generation ${_id}`);
}
