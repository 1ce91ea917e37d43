import type { ClientSession, Document } from 'mongodb';
import { readIn } from '#infra/mongo/causal-read.ts';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { guardedUpdate, literal, msOf, NOW_MS, nowPlus, Stale, wasAccepted } from '#infra/mongo/guarded-update.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf, postCommandIn } from '#infra/mongo/mailbox/mailbox.ts';
import { FRONT_DOOR_BUDGET_MS, inTransaction } from '#infra/mongo/transaction.ts';
import { type ClassifierCommands, settlementCommand, settlementOrder } from '#shared/classifier/commands.ts';
import {
  type AnsweredGeneration,
  type Charge,
  type ClosedAs,
  failureOf,
  type Generation,
  type GenerationHolder,
  REPLAY_MS,
  SETTLEMENT_ATTEMPTS,
  SETTLEMENT_BACKOFF,
  type SettledGeneration,
} from '#shared/classifier/generation.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { type GenerationKey, generations } from './collections.ts';
import { convertHold, markHoldConsumed, releaseHold } from './generation-holds.ts';

/** A generation on which only its holder works until the lease ends. */
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

const isClosedAs = (closed: ClosedAs): Document => ({
  $and: [{ $eq: ['$state', 'PENDING'] }, { $eq: ['$closed', closed] }],
});
/** Condition: a holder has found the day of this unpaid answer over. */
export const IS_EXPIRED: Document = isClosedAs('EXPIRED');
const IS_SUPERSEDED = isClosedAs('SUPERSEDED');

export interface Acquisition {
  by: GenerationHolder;
  leaseMs: number;
  /** Closed answers that the caller may charge all the same. Default: none. */
  evenIf?: readonly ClosedAs[];
  /** Session of the claim whose command names the row. */
  session?: ClientSession;
}

type Acquired =
  | { kind: 'held'; held: HeldGeneration }
  | { kind: 'busy' | 'expired' | 'superseded' | 'settled' | 'gone' };

/**
 * Acquires a row that is not settled and whose lease is over. A worker also acquires it from another worker: its claim of the row's
 * only command proves that the other worker has lost that command. `busy`: another holder has the row. `gone`: the row does not
 * exist.
 *
 * An unpaid answer whose day is over by MongoDB's clock is not acquired but closed: `expired`. From then on, no clock opens it again.
 */
export async function acquireGeneration(
  mongo: Mongo,
  { _id, key }: GenerationKey,
  { by, leaseMs, evenIf = [], session }: Acquisition,
): Promise<Acquired> {
  const isOver = { $lte: [msOf('$leaseUntil'), NOW_MS] };
  const isFree = by === 'door' ? isOver : { $or: [isOver, { $eq: ['$heldBy', 'worker'] }] };
  const isPastDay = { $and: [{ $eq: ['$state', 'PENDING'] }, { $lte: [msOf('$replayUntil'), NOW_MS] }] };
  const expires = evenIf.includes('EXPIRED') ? literal(false) : { $or: [IS_EXPIRED, isPastDay] };
  const unlessExpired = (acquired: unknown, field: string) => ({ $cond: [expires, `$${field}`, acquired] });
  const isAllowed = evenIf.includes('SUPERSEDED') ? [] : [{ $not: [IS_SUPERSEDED] }];
  const update = guardedUpdate([{ $ne: ['$state', 'SETTLED'] }, isFree, ...isAllowed], {
    closed: { $cond: [expires, literal('EXPIRED'), '$closed'] },
    leaseUntil: unlessExpired(nowPlus(leaseMs), 'leaseUntil'),
    heldBy: unlessExpired(literal(by), 'heldBy'),
    fence: unlessExpired({ $add: ['$fence', 1] }, 'fence'),
    failure: unlessExpired(null, 'failure'),
    // A row without an answer expires a while after it was last acquired, not after it was created. So it never expires while its
    // answer is being made.
    idleSince: { $cond: [{ $eq: ['$state', 'MAKING'] }, '$$NOW', null] },
  });
  const row = await generations(mongo).findOneAndUpdate({ _id, key }, update.pipeline, {
    returnDocument: 'after',
    maxTimeMS: QUERY_LIMIT_MS,
    ...(session === undefined ? {} : { session }),
  });
  if (row === null) return { kind: 'gone' };
  if (row.state === 'PENDING' && row.closed !== null && !evenIf.includes(row.closed)) {
    return { kind: row.closed === 'EXPIRED' ? 'expired' : 'superseded' };
  }
  if (wasAccepted(update, row)) return { kind: 'held', held: { row, fence: row.fence } };
  return { kind: row.state === 'SETTLED' ? 'settled' : 'busy' };
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
 * Releases a row that is not settled. With a rejection, the requests that waited for this holder return the same rejection. With
 * null they acquire the row themselves. Changes nothing if the caller is no longer the holder.
 */
export async function releaseGeneration(
  mongo: Mongo,
  { row, fence }: HeldGeneration,
  rejection: Rejection | null,
  session?: ClientSession,
): Promise<void> {
  const failure = rejection === null ? null : failureOf(fence, rejection);
  const { pipeline } = guardedUpdate([{ $eq: ['$fence', fence] }, { $ne: ['$state', 'SETTLED'] }], {
    leaseUntil: '$$NOW',
    failure: literal(failure),
  });
  const { _id, key } = row;
  const options = session === undefined ? {} : { session };
  await generations(mongo).updateOne({ _id, key }, pipeline, { maxTimeMS: QUERY_LIMIT_MS, ...options });
}

/** Deletes the row of a holder that has no answer. Does nothing if the caller is no longer the holder. */
export async function discardGeneration(mongo: Mongo, { row: { _id, key }, fence }: HeldGeneration): Promise<void> {
  await generations(mongo).deleteOne({ _id, key, fence, state: 'MAKING' }, { maxTimeMS: QUERY_LIMIT_MS });
}

/** The answer of a model, and the kind of holder that calls usage and wallet service for it. */
interface PricedAnswer {
  /** JSON text, by `resultText`. */
  result: string;
  charge: Charge;
  settledBy: GenerationHolder;
  /** Unix milliseconds by MongoDB's clock. */
  now: number;
}

/**
 * Changes MAKING to PENDING in one commit: stores the answer with its price, extends the hold of that price, and posts the
 * settlement command. `lost`: another holder has the row by now, and nothing was stored.
 *
 * If the worker settles, the command is due at once and finds the row free. If the front door settles, it still holds the row,
 * and the command is due one backoff later.
 */
export async function storeReplay(
  mongo: Mongo,
  { row, fence }: HeldGeneration,
  { result, charge, settledBy, now }: PricedAnswer,
): Promise<{ kind: 'stored' } | { kind: 'lost' }> {
  const isWorkers = settledBy === 'worker';
  const command = newCommand({
    ...settlementOrder(row),
    maxAttempts: SETTLEMENT_ATTEMPTS,
    now,
    ...(isWorkers ? {} : { runAt: now + SETTLEMENT_BACKOFF.baseMs }),
  });
  return inTransaction(mongo, FRONT_DOOR_BUDGET_MS, async (session) => {
    const { pipeline } = guardedUpdate([{ $eq: ['$fence', fence] }, { $eq: ['$state', 'MAKING'] }], {
      state: 'PENDING' satisfies Generation['state'],
      result: literal(result),
      charge: literal(charge),
      commandId: literal(command._id),
      replayUntil: nowPlus(REPLAY_MS),
      // Without `idleSince` the row never expires, so an unpaid answer is not lost.
      idleSince: null,
      ...(isWorkers ? { leaseUntil: '$$NOW' } : {}),
    });
    const { _id, key } = row;
    const written = await generations(mongo).updateOne({ _id, key }, pipeline, { session });
    if (written.modifiedCount !== 1) return { kind: 'lost' };
    await convertHold(mongo, row, charge, session);
    await postCommandIn(mongo, session, command);
    return { kind: 'stored' };
  });
}

/**
 * Records that the usage service has counted the consumption, on the row and on its hold. This is true whichever holder reported it,
 * so no fence is required.
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

/** Does the same as `markConsumed` in a transaction of its own, for a front door that settles. */
export async function markConsumedAtDoor(
  mongo: Mongo,
  row: GenerationKey & Pick<Generation, 'organizationId'>,
): Promise<void> {
  await inTransaction(mongo, FRONT_DOOR_BUDGET_MS, (session) => markConsumed(mongo, row, session));
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
    leaseUntil: '$$NOW',
    failure: null,
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

/**
 * Settles a generation at a front door and ends the worker's command in the same commit. If a worker has claimed the command
 * meanwhile, it finds the row settled. Returns the settled row; throws if it is not settled.
 */
export async function settleAtDoor(mongo: Mongo, row: AnsweredGeneration): Promise<SettledGeneration> {
  await inTransaction(mongo, FRONT_DOOR_BUDGET_MS, async (session) => {
    await markSettled(mongo, row, session);
    const result = { settledBy: 'front door' } satisfies ClassifierCommands['settlement']['result'];
    const command = settlementCommand(row);
    const done = { status: 'DONE', settledAt: '$$NOW', result };
    await mailboxOf(mongo, 'settlement').updateOne(
      { _id: command._id, key: command.key, status: 'PENDING', lockedUntil: null },
      [{ $set: done }],
      { session },
    );
  });
  const settled = await findGeneration(mongo, row);
  if (settled === null || settled.state !== 'SETTLED') throw new Error(`generation ${row._id} was not settled`);
  return settled;
}
