import type { ClientSession } from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { Command } from '#shared/kernel/command.ts';
import { mailboxOf } from './mailbox.ts';
import { LeaseLost } from './settle-command.ts';

/**
 * Notes how far a long command has come, in the transaction that makes the step's effects: after a crash the next
 * claim goes on from there, and a step is neither lost nor made twice.
 */
export async function saveProgress(
  mongo: Mongo,
  command: Command,
  progress: unknown,
  session: ClientSession,
): Promise<void> {
  const written = await mailboxOf(mongo, command.queue).updateOne(
    { _id: command._id, fence: command.fence, status: 'PENDING' },
    { $set: { progress } },
    { session },
  );
  if (written.matchedCount !== 1) throw new LeaseLost(command);
}
