import type { ClientSession } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import { guardedUpdate, literal, msOf, NOW_MS, wasAccepted } from '#infra/mongo/guarded-update.ts';
import { endIdleCommand } from '#infra/mongo/mailbox/settle.ts';
import { FRONT_DOOR_BUDGET_MS, inTransaction } from '#infra/mongo/transaction.ts';
import { settlementCommand } from '#shared/classifier/commands.ts';
import type { AnsweredGeneration, ClosedAs, Generation } from '#shared/classifier/generation.ts';
import { generations } from './collections.ts';
import { releaseHold } from './generation-holds.ts';
import { type HeldGeneration, IS_EXPIRED } from './generations.ts';

/** Returns the newest generation of this key, which decides how a request continues, or null. */
export async function newestGeneration(mongo: Mongo, key: string): Promise<Generation | null> {
  return generations(mongo).findOne({ key }, { sort: { epoch: -1 }, maxTimeMS: QUERY_LIMIT_MS });
}

/** Returns true if no request returns this unpaid answer any longer, because an equal request has a newer epoch. */
export async function isSuperseded(mongo: Mongo, previewId: string): Promise<boolean> {
  return (await supersededAmong(mongo, [previewId])) > 0;
}

/** Ids in one query. */
const AT_ONCE = 1_000;

/** Returns how many of these unpaid answers are superseded, as `isSuperseded` decides it for each. */
export async function supersededAmong(mongo: Mongo, previewIds: readonly string[]): Promise<number> {
  let count = 0;
  for (let from = 0; from < previewIds.length; from += AT_ONCE) {
    const ids = previewIds.slice(from, from + AT_ONCE);
    const superseded = { _id: { $in: ids }, state: 'PENDING', closed: 'SUPERSEDED' } as const;
    count += await generations(mongo).countDocuments(superseded, { maxTimeMS: QUERY_LIMIT_MS });
  }
  return count;
}

interface NewGeneration extends Pick<Generation, '_id' | 'key' | 'epoch' | 'organizationId' | 'actor'> {
  /** Unix milliseconds by MongoDB's clock. */
  now: number;
  leaseMs: number;
}

/**
 * Result of `openGeneration`. `raced`: an equal request inserted the row first. `busy`: the row before it must not be closed now.
 * `deadCommandId`: the settlement that became DEAD with the row before it, or null.
 */
type Opened =
  | { kind: 'held'; held: HeldGeneration; deadCommandId: string | null }
  | { kind: 'raced' }
  | { kind: 'busy' };

/**
 * Inserts the first row of an epoch, held by the caller. `after` is the row of the epoch before it, if there is one. The same commit
 * closes that row: of one request, two answers can never be charged.
 */
export async function openGeneration(
  mongo: Mongo,
  wanted: NewGeneration,
  after: AnsweredGeneration | null = null,
): Promise<Opened> {
  const { now, leaseMs, ...named } = wanted;
  const at = new Date(now);
  const row: Generation = {
    ...named,
    state: 'MAKING',
    closed: null,
    leaseUntil: new Date(now + leaseMs),
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
  const held = { row, fence: row.fence };
  try {
    if (after === null) {
      await generations(mongo).insertOne({ ...row });
      return { kind: 'held', held, deadCommandId: null };
    }
    return await inTransaction(mongo, FRONT_DOOR_BUDGET_MS, async (session) => {
      const deadCommandId = await supersede(mongo, after, session);
      await generations(mongo).insertOne({ ...row }, { session });
      return { kind: 'held', held, deadCommandId };
    });
  } catch (error) {
    if (error instanceof StillInUse) return { kind: 'busy' };
    if (!isDuplicateKey(error, ['key', 'epoch'])) throw error;
    return { kind: 'raced' };
  }
}

/** Thrown to abort the transaction that would close a row whose day is not over, or whose settlement runs. */
class StillInUse extends Error {}

const WAS_SUPERSEDED = {
  fingerprint: 'Superseded',
  message: 'the generation was not settled within 24 hours, and then an equal request was charged anew',
};

/**
 * Closes a row for ever, in the transaction that inserts the row of the next epoch. MongoDB's clock decides that its day is over and
 * that no run charges it. If its answer is unpaid, its hold is deleted and its settlement becomes DEAD: without a settlement worker,
 * no other process would end that command. Returns the id of a command that became DEAD by this.
 *
 * @throws StillInUse
 */
async function supersede(
  mongo: Mongo,
  { _id, key, organizationId, commandId }: AnsweredGeneration,
  session: ClientSession,
): Promise<string | null> {
  const isOver = { $or: [{ $lte: [msOf('$replayUntil'), NOW_MS] }, IS_EXPIRED] };
  const update = guardedUpdate([{ $ne: ['$closed', 'SUPERSEDED'] }, { $ne: ['$state', 'MAKING'] }, isOver], {
    closed: literal('SUPERSEDED' satisfies ClosedAs),
  });
  const row = await generations(mongo).findOneAndUpdate({ _id, key }, update.pipeline, {
    returnDocument: 'after',
    session,
  });
  if (!wasAccepted(update, row)) {
    // Another request closed it. The insert then finds that request's row, or replaces it if it was deleted without an answer.
    if (row?.closed === 'SUPERSEDED') return null;
    throw new StillInUse();
  }
  if (row?.state === 'SETTLED') return null;
  const dead = { to: 'DEAD', error: WAS_SUPERSEDED } as const;
  const end = await endIdleCommand(mongo, settlementCommand({ _id, commandId }), dead, session);
  if (end === 'running') throw new StillInUse();
  await releaseHold(mongo, { _id, organizationId }, session);
  return end === 'ended' ? commandId : null;
}
