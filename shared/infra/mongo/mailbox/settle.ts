import type { ClientSession, UpdateFilter } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { literal, nowPlus } from '#infra/mongo/guarded-update.ts';
import type { Command, CommandError, CommandStatus, DoneStatus, Queue } from '#shared/kernel/command.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import type { CommandOf, Commands } from './commands.ts';
import { mailboxOf } from './mailbox.ts';

/** The write of a worker that no longer holds the command: another claim came after its own. */
export class LeaseLost extends Error {
  constructor(command: Command) {
    super(`command ${command._id} was claimed by another worker after fence ${command.fence}`);
    this.name = 'LeaseLost';
  }
}

/** What went wrong in a run; the write adds when, by MongoDB's clock. */
export type Failure = Omit<CommandError, 'at'>;

/** The ways in which a run leaves its command. Milliseconds count from MongoDB's now. */
export type NextState<Q extends Queue = Queue> =
  | { to: DoneStatus; result: Commands[Q]['result'] }
  | { to: 'REJECTED'; result: Rejection }
  | { to: 'DEAD'; error: Failure }
  | { to: 'AGAIN'; inMs: number; unspent: boolean; error: Failure | null };

/**
 * Writes how the run ended, in the caller's transaction or by itself. The filter names the fence of the claim: a
 * worker that was paused past its lease matches nothing, and the LeaseLost it gets aborts its whole transaction. It asks
 * for the lease as well: a command that this very run has put back keeps fence and status, and a settlement that is
 * made again because its reply was lost must neither give the attempt back twice nor push the next one away.
 */
export async function settleCommand<Q extends Queue>(
  mongo: Mongo,
  command: CommandOf<Q>,
  next: NextState<Q>,
  session?: ClientSession,
): Promise<void> {
  const { _id, fence, queue } = command;
  const written = await mailboxOf<Queue>(mongo, queue).updateOne(
    { _id, fence, status: 'PENDING', lockedUntil: { $ne: null } },
    [{ $set: changesOf(next) }, ...(next.to === 'REJECTED' ? [{ $unset: 'live' }] : [])] as UpdateFilter<Command>[],
    session === undefined ? {} : { session },
  );
  if (written.matchedCount !== 1) throw new LeaseLost(command);
}

/**
 * Gives back an attempt that a fault of MongoDB spent while the command could not be settled and its lease ran out.
 * Whoever holds the command now keeps it: only the count changes, and its holder's session stays named.
 *
 * Every claim since ours must have spent its attempt: then fence and attempts have grown alike. If they have not, an
 * attempt was given back since, which may well be ours (by a settlement whose reply was lost, or by this very write),
 * and one more would be somebody else's.
 */
export async function refundAttempt(mongo: Mongo, command: Command): Promise<void> {
  const ours = command.fence - command.attempts;
  const isSpent = {
    $and: [
      { $eq: ['$status', 'PENDING'] },
      { $gt: ['$fence', command.fence] },
      { $eq: [{ $subtract: ['$fence', '$attempts'] }, ours] },
    ],
  };
  await mailboxOf(mongo, command.queue).updateOne({ _id: command._id }, [
    { $set: { attempts: { $cond: [isSpent, { $subtract: ['$attempts', 1] }, '$attempts'] } } },
  ]);
}

/**
 * Takes our session off a command that we still hold and could not settle. The driver gives the session to whoever
 * asks next, and who finds our lease over would end it under a stranger's transaction.
 */
export async function forgetSession(mongo: Mongo, command: Command): Promise<void> {
  await mailboxOf(mongo, command.queue).updateOne(
    { _id: command._id, fence: command.fence, status: 'PENDING' },
    { $set: { session: null } },
  );
}

/**
 * Puts a command back, unspent and due, that this worker may have claimed without hearing of it. Changes nothing
 * unless the command is claimed in its name; the caller runs no claim of this command itself.
 */
export async function takeBackClaim(
  mongo: Mongo,
  claimed: { queue: Queue; id: string; workerId: string },
): Promise<void> {
  await mailboxOf(mongo, claimed.queue).updateOne(
    { _id: claimed.id, workerId: claimed.workerId, status: 'PENDING', lockedUntil: { $ne: null } },
    [{ $set: changesOf({ to: 'AGAIN', inMs: 0, unspent: true, error: null }) }],
    { maxTimeMS: QUERY_LIMIT_MS },
  );
}

/** Nobody holds a settled command: a session that it went on naming would be ended by whoever claims it next. */
function changesOf(next: NextState): Record<string, unknown> {
  if (next.to === 'AGAIN') {
    return {
      lockedUntil: null,
      workerId: null,
      session: null,
      nextRunAt: nowPlus(next.inMs),
      ...(next.unspent ? { attempts: { $max: [0, { $subtract: ['$attempts', 1] }] } } : {}),
      ...(next.error === null ? {} : { lastError: lastError(next.error) }),
    };
  }
  const status: CommandStatus = next.to;
  return {
    status,
    lockedUntil: null,
    session: null,
    settledAt: '$$NOW',
    ...(next.to === 'DEAD' ? { lastError: lastError(next.error) } : { result: literal(next.result) }),
  };
}

function lastError({ fingerprint, message }: Failure): Record<keyof CommandError, unknown> {
  return { fingerprint: literal(fingerprint), message: literal(message), at: '$$NOW' };
}

/**
 * Prolongs the lease from now on. False: another worker has claimed the command, or it is settled. A command that was
 * put back keeps fence and status, so the filter asks for the lease itself: a renewal that overtakes the settling on
 * its way must not push the next attempt away.
 */
export async function renewLease(mongo: Mongo, command: Command, leaseMs: number): Promise<boolean> {
  const renewed = await mailboxOf(mongo, command.queue).updateOne(
    { _id: command._id, fence: command.fence, status: 'PENDING', lockedUntil: { $ne: null } },
    [{ $set: { lockedUntil: nowPlus(leaseMs), nextRunAt: nowPlus(leaseMs) } }],
  );
  return renewed.matchedCount === 1;
}

/**
 * Notes how far a long command has come, in the transaction that makes the step's effects: after a crash the next
 * claim goes on from there, and a step is neither lost nor made twice.
 */
export async function saveProgress<Q extends Queue>(
  mongo: Mongo,
  command: CommandOf<Q>,
  progress: Commands[Q]['progress'],
  session: ClientSession,
): Promise<void> {
  const { _id, fence, queue } = command;
  const written = await mailboxOf<Queue>(mongo, queue).updateOne(
    { _id, fence, status: 'PENDING' },
    { $set: { progress } },
    { session },
  );
  if (written.matchedCount !== 1) throw new LeaseLost(command);
}
