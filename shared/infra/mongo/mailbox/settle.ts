import type { ClientSession, Document, Filter, UpdateFilter } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { guardedUpdate, literal, msOf, NOW_MS, nowPlus, wasAccepted } from '#infra/mongo/guarded-update.ts';
import {
  type Command,
  type CommandError,
  type CommandRef,
  type CommandStatus,
  type DoneStatus,
  type Queue,
  SUSPECT_LAPSES,
  UNLIMITED_ATTEMPTS,
} from '#shared/kernel/command.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import type { FailureCode, Refusal } from '#shared/kernel/failure.ts';
import { type CommandOf, type Commands, LEFT_BEHIND } from './commands.ts';
import { mailboxOf } from './mailbox.ts';

/** Thrown by a write whose filter did not match: the worker no longer holds the command, or has settled it already. */
export class LeaseLost extends Error {
  constructor(command: Command) {
    super(`command ${command._id} was claimed by another worker after fence ${command.fence}`);
    this.name = 'LeaseLost';
  }
}

/** The error of a run, as it is stored. The write adds the times, by MongoDB's clock. */
export interface Failure extends Omit<CommandError, 'at' | 'code' | 'refusal'> {
  code?: FailureCode | null;
  refusal?: Refusal | null;
}

/** The state in which a run leaves its command. `inMs` counts from MongoDB's time of the write; `unspent` refunds the attempt. */
export type NextState<Q extends Queue = Queue> =
  | { to: DoneStatus; result: Commands[Q]['result'] }
  | { to: 'REJECTED'; result: Rejection }
  | { to: 'DEAD'; error: Failure }
  | { to: 'AGAIN'; inMs: number; unspent: boolean; error: Failure | null };

/**
 * Returns true if this state proves that the run harms no worker, which ends a row of lapses. An outage or a stop that cut the run
 * short proves nothing: the next lapse makes the command a suspect again.
 */
export function endsLapses(next: NextState): boolean {
  return next.to !== 'AGAIN' || !next.unspent || next.error === null;
}

/**
 * Writes the end of a run, in the caller's transaction or by itself. An outcome clears a suspect.
 *
 * The filter names the fence of the claim. If the worker was paused past its lease, nothing matches and LeaseLost aborts its whole
 * transaction. The filter also requires a lease, because a snoozed command keeps fence and status. Otherwise a settlement
 * that is repeated after a lost reply would refund the attempt twice or delay the next one.
 *
 * @throws LeaseLost if the filter does not match
 */
export async function settleCommand<Q extends Queue>(
  mongo: Mongo,
  command: CommandOf<Q>,
  next: NextState<Q>,
  session?: ClientSession,
): Promise<void> {
  const { filter, update } = settlement(command, next);
  const written = await mailboxOf<Queue>(mongo, command.queue).updateOne(
    filter,
    update,
    session === undefined ? {} : { session },
  );
  if (written.matchedCount !== 1) throw new LeaseLost(command);
}

/** Returns the write that ends a run; it finds no command if the worker no longer holds it. */
export function settlement<Q extends Queue>(
  command: CommandOf<Q>,
  next: NextState<Q>,
): { filter: Filter<CommandOf<Queue>>; update: UpdateFilter<Command>[] } {
  const { _id, key, fence, queue } = command;
  const isTurnOver = next.to === 'AGAIN' && next.error === null && command.maxAttempts >= UNLIMITED_ATTEMPTS;
  const changes: Record<string, unknown> = {
    ...changesOf(queue, next),
    lapses: lapsesAfter(next),
    ...(isTurnOver ? NOT_FAILING : {}),
  };
  return {
    filter: { _id, key, fence, status: 'PENDING', lockedUntil: { $ne: null } },
    update: [{ $set: changes }, ...unsetBy(next)] as UpdateFilter<Command>[],
  };
}

/** Ends a row of failed runs. A wait that an actor chose does not: only the next run shows if the cause is gone, unless it is a sweep's turn. */
const NOT_FAILING = { failing: '$$REMOVE', failingSince: '$$REMOVE' } as const;

function lapsesAfter(next: NextState): Document | string {
  const below = SUSPECT_LAPSES - 1;
  return endsLapses(next) ? '$$REMOVE' : { $cond: [{ $gt: ['$lapses', below] }, below, '$lapses'] };
}

/** Returns the stage that removes fields. A rejection frees the key. Each death is a new letter, without the mark of an earlier one. */
function unsetBy({ to }: NextState): { $unset: string }[] {
  if (to === 'REJECTED') return [{ $unset: 'live' }];
  return to === 'DEAD' ? [{ $unset: 'letter' }] : [];
}

/**
 * Refunds an attempt that was spent, and a lapse that was counted, because an outage let the lease expire before the command could be
 * settled. Only the counts change, so the worker that holds the command now keeps it.
 *
 * Refunds only if fence and attempts have grown equally since our claim. Otherwise one attempt has been refunded already, possibly
 * ours (by a settlement whose reply was lost, or by this same write), and a second refund would belong to another claim.
 */
export async function refundAttempt(mongo: Mongo, command: Command): Promise<void> {
  const { _id, key } = command;
  const ours = command.fence - command.attempts;
  const isSpent = {
    $and: [
      { $eq: ['$status', 'PENDING'] },
      { $gt: ['$fence', command.fence] },
      { $eq: [{ $subtract: ['$fence', '$attempts'] }, ours] },
    ],
  };
  // The outcome of a later claim may have ended the row of lapses.
  const hasLapsed = { $and: [isSpent, { $gt: ['$lapses', 0] }] };
  await mailboxOf(mongo, command.queue).updateOne({ _id, key }, [
    {
      $set: {
        attempts: { $cond: [isSpent, { $subtract: ['$attempts', 1] }, '$attempts'] },
        lapses: { $cond: [hasLapsed, { $subtract: ['$lapses', 1] }, '$lapses'] },
      },
    },
  ]);
}

/**
 * Clears our session id from a command that we still hold but could not settle. The driver reuses the session. A worker that finds
 * our lease expired ends the stored session, and would abort an unrelated transaction.
 */
export async function clearHolderSession(mongo: Mongo, command: Command): Promise<void> {
  const { _id, key, fence } = command;
  await mailboxOf(mongo, command.queue).updateOne({ _id, key, fence, status: 'PENDING' }, { $set: { session: null } });
}

/** Makes the changes if that worker holds the command, and changes nothing otherwise. */
async function updateHeldBy(mongo: Mongo, workerId: string, ref: CommandRef, changes: Document): Promise<void> {
  const { _id, queue, key } = ref;
  await mailboxOf(mongo, queue).updateOne(
    { _id, key, workerId, status: 'PENDING', lockedUntil: { $ne: null } },
    [{ $set: changes }],
    { maxTimeMS: QUERY_LIMIT_MS },
  );
}

/**
 * Undoes a claim of this worker whose reply was lost: the command is due at once and its attempt is refunded. Changes nothing if
 * this worker does not hold the command. The caller must not run another claim of the command at the same time.
 */
export async function undoClaim(mongo: Mongo, ref: CommandRef, { workerId }: { workerId: string }): Promise<void> {
  const changes = changesOf(ref.queue, { to: 'AGAIN', inMs: 0, unspent: true, error: null });
  await updateHeldBy(mongo, workerId, ref, changes);
}

/**
 * Ends the lease of a worker that has ended, which only a caller that saw it end may do. The next claim counts the lapse at once.
 * Changes nothing if that worker does not hold the command.
 */
export async function endLease(mongo: Mongo, ref: CommandRef, { workerId }: { workerId: string }): Promise<void> {
  await updateHeldBy(mongo, workerId, ref, { lockedUntil: '$$NOW', nextRunAt: '$$NOW' });
}

/** The end of a command that no worker runs: DONE with a result, or DEAD. */
type IdleEnd<Q extends Queue> = Extract<NextState<Q>, { to: DoneStatus | 'DEAD' }>;

/**
 * Ends a command that no worker runs, in the caller's transaction. It gets a newer fence, so a worker that was paused past its
 * lease finds that it has lost the command. `running`: its lease is not over by MongoDB's clock; nothing is written. `settled`: it is
 * settled already, or unknown.
 */
export async function endIdleCommand<Q extends Queue>(
  mongo: Mongo,
  { _id, queue, key }: CommandRef<Q>,
  end: IdleEnd<Q>,
  session: ClientSession,
): Promise<'ended' | 'running' | 'settled'> {
  const update = guardedUpdate([{ $eq: ['$status', 'PENDING'] }, { $lte: [msOf('$lockedUntil'), NOW_MS] }], {
    ...changesOf(queue, end),
    workerId: null,
    fence: { $add: ['$fence', 1] },
  });
  const after = await mailboxOf<Queue>(mongo, queue).findOneAndUpdate({ _id, key }, update.pipeline, {
    returnDocument: 'after',
    session,
  });
  if (wasAccepted(update, after)) return 'ended';
  return after?.status === 'PENDING' ? 'running' : 'settled';
}

/** Returns the changes of a settlement. They always clear the session, because the next claim would end a session that is reused. */
function changesOf(queue: Queue, next: NextState): Record<string, unknown> {
  if (next.to === 'AGAIN') {
    return {
      lockedUntil: null,
      workerId: null,
      session: null,
      nextRunAt: nowPlus(next.inMs),
      ...(next.unspent ? { attempts: { $max: [0, { $subtract: ['$attempts', 1] }] } } : {}),
      ...(next.error === null ? {} : { lastError: lastError(next.error), ...FAILING }),
    };
  }
  const status: CommandStatus = next.to;
  return {
    status,
    lockedUntil: null,
    session: null,
    settledAt: '$$NOW',
    ...Object.fromEntries((LEFT_BEHIND[queue] ?? []).map((field) => [field, '$$REMOVE'])),
    ...(next.to === 'DEAD' ? { lastError: lastError(next.error) } : { result: literal(next.result), ...NOT_FAILING }),
  };
}

/** The first failure of a row stores its time, and later ones keep it. */
const FAILING = { failing: true, failingSince: { $ifNull: ['$failingSince', '$$NOW'] } } as const;

/** MongoDB merges this with the stored error, so that every field is written. */
function lastError({
  fingerprint,
  message,
  code = null,
  refusal = null,
}: Failure): Record<keyof CommandError, unknown> {
  const text = { fingerprint: literal(fingerprint), message: literal(message) };
  return { ...text, at: '$$NOW', code: literal(code), refusal: refusalAfter(refusal) };
}

/** Returns the stored refusal. An equal one before it keeps the time at which the row of them began. */
function refusalAfter(refusal: Refusal | null): unknown {
  if (refusal === null) return literal(null);
  const [service, status] = [literal(refusal.service), literal(refusal.status)];
  const isSame = {
    $and: [
      { $eq: ['$lastError.refusal.service', service] },
      { $eq: ['$lastError.refusal.status', status] },
      { $ne: [{ $ifNull: ['$failing', null] }, null] },
    ],
  };
  return { service, status, since: { $cond: [isSame, '$lastError.refusal.since', '$$NOW'] } };
}

/**
 * Extends the lease by `leaseMs` from MongoDB's current time. Returns false if another worker has claimed the command, or if it is
 * settled.
 *
 * A snoozed command keeps fence and status, so the filter also requires a lease. A renewal that arrives after the settlement would
 * otherwise delay the next attempt.
 */
export async function renewLease(mongo: Mongo, command: Command, leaseMs: number): Promise<boolean> {
  const { _id, key, fence } = command;
  const renewed = await mailboxOf(mongo, command.queue).updateOne(
    { _id, key, fence, status: 'PENDING', lockedUntil: { $ne: null } },
    [{ $set: { lockedUntil: nowPlus(leaseMs), nextRunAt: nowPlus(leaseMs) } }],
  );
  return renewed.matchedCount === 1;
}

/**
 * Stores the progress of a long command in the transaction of the step's effects. After a crash the next claim continues from
 * there, and no step is lost or made twice. `leaseEnd` is the new end of the isolation slot, if the command runs in it.
 *
 * @throws LeaseLost if another worker has claimed the command
 */
export async function saveProgress<Q extends Queue>(
  mongo: Mongo,
  command: CommandOf<Q>,
  progress: Commands[Q]['progress'],
  { session, leaseEnd }: { session: ClientSession; leaseEnd: Date | undefined },
): Promise<void> {
  const { _id, key, fence, queue } = command;
  const lease = leaseEnd === undefined ? {} : { lockedUntil: leaseEnd, nextRunAt: leaseEnd };
  const written = await mailboxOf<Queue>(mongo, queue).updateOne(
    { _id, key, fence, status: 'PENDING' },
    { $set: { progress, ...lease }, $currentDate: { movedAt: true } },
    { session },
  );
  if (written.matchedCount !== 1) throw new LeaseLost(command);
}
