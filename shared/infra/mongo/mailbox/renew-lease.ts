import type { Mongo } from '#infra/mongo/connect.ts';
import { nowPlus } from '#infra/mongo/server-time.ts';
import type { Command } from '#shared/kernel/command.ts';
import { mailboxOf } from './mailbox.ts';

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
