import type { ClientSession, UpdateFilter } from 'mongodb';
import type { Command, CommandError, CommandStatus, Queue } from '../../../kernel/command.ts';
import { type Mongo, QUERY_LIMIT_MS } from '../connect.ts';
import { literal } from '../guarded-update.ts';
import { nowPlus } from '../server-time.ts';
import { mailboxOf } from './mailbox.ts';

/** The write of a worker that no longer holds the command: another claim came after its own. */
export class LeaseLost extends Error {
  constructor(command: Command) {
    super(`command ${command._id} was claimed by another worker after fence ${command.fence}`);
    this.name = 'LeaseLost';
  }
}

/** The ways in which a run leaves its command. Milliseconds count from MongoDB's now. */
export type Settlement =
  | { to: 'DONE' | 'DELIVERED'; result: unknown }
  | { to: 'REJECTED'; result: unknown }
  | { to: 'DEAD'; error: CommandError }
  | { to: 'AGAIN'; inMs: number; unspent: boolean; error: CommandError | null };

/**
 * Writes how the run ended, in the caller's transaction or by itself. The filter names the fence of the claim: a
 * worker that was paused past its lease matches nothing, and the LeaseLost it gets aborts its whole transaction.
 */
export async function settleCommand(
  mongo: Mongo,
  command: Command,
  settlement: Settlement,
  session?: ClientSession,
): Promise<void> {
  const written = await mailboxOf(mongo, command.queue).updateOne(
    { _id: command._id, fence: command.fence, status: 'PENDING' },
    [
      { $set: changesOf(settlement) },
      ...(settlement.to === 'REJECTED' ? [{ $unset: 'live' }] : []),
    ] as UpdateFilter<Command>[],
    session === undefined ? {} : { session },
  );
  if (written.matchedCount !== 1) throw new LeaseLost(command);
}

/**
 * Gives back an attempt that a fault of MongoDB spent while the command could not be settled and its lease ran out.
 * Whoever holds the command now keeps it: only the count changes.
 */
export async function refundAttempt(mongo: Mongo, command: Command): Promise<void> {
  await mailboxOf(mongo, command.queue).updateOne(
    { _id: command._id, fence: { $gt: command.fence }, status: 'PENDING', attempts: { $gt: 0 } },
    { $inc: { attempts: -1 } },
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

function changesOf(settlement: Settlement): Record<string, unknown> {
  if (settlement.to === 'AGAIN') {
    return {
      lockedUntil: null,
      workerId: null,
      session: null,
      nextRunAt: nowPlus(settlement.inMs),
      ...(settlement.unspent ? { attempts: { $max: [0, { $subtract: ['$attempts', 1] }] } } : {}),
      ...(settlement.error === null ? {} : { lastError: literal(settlement.error) }),
    };
  }
  const status: CommandStatus = settlement.to;
  return {
    status,
    lockedUntil: null,
    settledAt: '$$NOW',
    ...(settlement.to === 'DEAD' ? { lastError: literal(settlement.error) } : { result: literal(settlement.result) }),
  };
}
