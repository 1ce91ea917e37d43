import type { ClientSession } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import { guardedUpdate, literal, msOf, NOW_MS, nowPlus, wasAccepted } from '#infra/mongo/guarded-update.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf, postCommandIn } from '#infra/mongo/mailbox/mailbox.ts';
import { FRONT_DOOR_BUDGET_MS, inTransaction } from '#infra/mongo/transaction.ts';
import { type ClassifierCommands, settlementOrder } from '#shared/classifier/commands.ts';
import {
  type Charge,
  failureOf,
  type Generation,
  type GenerationHolder,
  type OwedGeneration,
  REPLAY_MS,
  SETTLEMENT_ATTEMPTS,
  SETTLEMENT_BACKOFF,
  type SettledGeneration,
} from '#shared/classifier/generation.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { generations } from './collections.ts';
import { dropHold, keepHold } from './generation-holds.ts';

/** A generation that its holder alone works on, until the lease is over. */
export interface HeldGeneration {
  row: Generation;
  /** A write that names an older one changes nothing. */
  fence: number;
}

/** The generation that a request of this key meets; null = there was none. */
export async function newestGeneration(mongo: Mongo, key: string): Promise<Generation | null> {
  return generations(mongo).findOne({ key }, { sort: { epoch: -1 }, maxTimeMS: QUERY_LIMIT_MS });
}

export async function findGeneration(mongo: Mongo, previewId: string): Promise<Generation | null> {
  return generations(mongo).findOne({ _id: previewId }, { maxTimeMS: QUERY_LIMIT_MS });
}

interface NewGeneration extends Pick<Generation, '_id' | 'key' | 'epoch' | 'organizationId' | 'actor'> {
  /** Unix milliseconds by MongoDB's clock. */
  now: number;
  leaseMs: number;
}

/** The first row of its epoch, held by whoever made it; `raced`: an equal request was quicker. */
export async function openGeneration(
  mongo: Mongo,
  wanted: NewGeneration,
): Promise<{ kind: 'held'; held: HeldGeneration } | { kind: 'raced' }> {
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
    return { kind: 'held', held: { row, fence: row.fence } };
  } catch (error) {
    if (!isDuplicateKey(error, ['key', 'epoch'])) throw error;
    return { kind: 'raced' };
  }
}

/**
 * Takes a row that nobody holds and that is not settled; `busy`: somebody else has it. A worker also takes it from
 * a worker: its claim of the row's one command says that the other one has lost that.
 */
export async function takeGeneration(
  mongo: Mongo,
  previewId: string,
  { by, leaseMs }: { by: GenerationHolder; leaseMs: number },
): Promise<{ kind: 'held'; held: HeldGeneration } | { kind: 'busy' } | { kind: 'settled' } | { kind: 'gone' }> {
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
  if (row === null) return { kind: 'gone' };
  if (wasAccepted(update, row)) return { kind: 'held', held: { row, fence: row.fence } };
  return { kind: row.state === 'SETTLED' ? 'settled' : 'busy' };
}

/** Keeps a row that is still held by this fence. */
export async function renewGeneration(mongo: Mongo, held: HeldGeneration, leaseMs: number): Promise<void> {
  const { pipeline } = guardedUpdate([{ $eq: ['$fence', held.fence] }, { $gt: [msOf('$leaseUntil'), NOW_MS] }], {
    leaseUntil: nowPlus(leaseMs),
  });
  await generations(mongo).updateOne({ _id: held.row._id }, pipeline, { maxTimeMS: QUERY_LIMIT_MS });
}

/**
 * Lets go of a row that is not settled. With a rejection, whoever waited for this holder answers the same; without one they try
 * themselves. Who is no longer the holder changes nothing.
 */
export async function giveUpGeneration(
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
  const options = session === undefined ? {} : { session };
  await generations(mongo).updateOne({ _id: row._id }, pipeline, { maxTimeMS: QUERY_LIMIT_MS, ...options });
}

/**
 * MAKING → PENDING: what the model gave and what it costs, the hold of that much for as long as it is owed, and the command to settle
 * it; all or none. `lost`: somebody else holds the row by now, and nothing was stored.
 */
export async function storeReplay(
  mongo: Mongo,
  { row, fence }: HeldGeneration,
  made: { result: string; charge: Charge; now: number },
): Promise<{ kind: 'stored' } | { kind: 'lost' }> {
  const { result, charge, now } = made;
  const command = newCommand({
    ...settlementOrder(row._id),
    maxAttempts: SETTLEMENT_ATTEMPTS,
    now,
    runAt: now + SETTLEMENT_BACKOFF.baseMs,
  });
  return inTransaction(mongo, FRONT_DOOR_BUDGET_MS, async (session) => {
    const { pipeline } = guardedUpdate([{ $eq: ['$fence', fence] }, { $eq: ['$state', 'MAKING'] }], {
      state: 'PENDING' satisfies Generation['state'],
      result: literal(result),
      charge: literal(charge),
      commandId: literal(command._id),
      replayUntil: nowPlus(REPLAY_MS),
      // What is owed never goes by itself.
      idleSince: null,
    });
    const written = await generations(mongo).updateOne({ _id: row._id }, pipeline, { session });
    if (written.modifiedCount !== 1) return { kind: 'lost' };
    await keepHold(mongo, row, charge, session);
    await postCommandIn(mongo, session, command);
    return { kind: 'stored' };
  });
}

/** Notes that the usage service has taken it. A fact, whoever brought it about: no fence is asked for. */
export async function markConsumed(mongo: Mongo, previewId: string, session?: ClientSession): Promise<void> {
  const { pipeline } = guardedUpdate([{ $eq: ['$state', 'PENDING'] }], { usageConsumed: true });
  const options = session === undefined ? {} : { session };
  await generations(mongo).updateOne({ _id: previewId }, pipeline, { maxTimeMS: QUERY_LIMIT_MS, ...options });
}

/** PENDING → SETTLED, once both owners have it: from now on the answer may be given; nothing is held for it any more. */
export async function markSettled(
  mongo: Mongo,
  { _id, organizationId }: Pick<Generation, '_id' | 'organizationId'>,
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
  await generations(mongo).updateOne({ _id }, pipeline, { session });
  await dropHold(mongo, { _id, organizationId }, session);
}

/**
 * The same at a front door, which ends the worker's command with it. A worker that has claimed the command meanwhile finds the row
 * settled. The row as it is then.
 */
export async function settleAtDoor(mongo: Mongo, row: OwedGeneration | SettledGeneration): Promise<SettledGeneration> {
  await inTransaction(mongo, FRONT_DOOR_BUDGET_MS, async (session) => {
    await markSettled(mongo, row, session);
    const result = { settledBy: 'front door' } satisfies ClassifierCommands['settlement']['result'];
    const done = { status: 'DONE', settledAt: '$$NOW', result };
    await mailboxOf(mongo, 'settlement').updateOne(
      { _id: row.commandId, status: 'PENDING', lockedUntil: null },
      [{ $set: done }],
      { session },
    );
  });
  const settled = await generations(mongo).findOne({ _id: row._id }, { maxTimeMS: QUERY_LIMIT_MS });
  if (settled === null || settled.state !== 'SETTLED') throw new Error(`generation ${row._id} was not settled`);
  return settled;
}
