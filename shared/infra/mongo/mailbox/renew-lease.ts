import type { Command } from '../../../kernel/command.ts';
import type { Mongo } from '../connect.ts';
import { nowPlus } from '../server-time.ts';
import { mailboxOf } from './mailbox.ts';

/** Prolongs the lease from now on. False: another worker has claimed the command, or it is settled. */
export async function renewLease(mongo: Mongo, command: Command, leaseMs: number): Promise<boolean> {
  const renewed = await mailboxOf(mongo, command.queue).updateOne(
    { _id: command._id, fence: command.fence, status: 'PENDING' },
    [{ $set: { lockedUntil: nowPlus(leaseMs), nextRunAt: nowPlus(leaseMs) } }],
  );
  return renewed.matchedCount === 1;
}
