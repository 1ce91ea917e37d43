import type { Mongo } from '#infra/mongo/connect.ts';
import type { Command, Queue } from '#shared/kernel/command.ts';
import { mailboxOf } from './mailbox.ts';

/** The command as it stands, or null. */
export async function readCommand(mongo: Mongo, queue: Queue, id: string): Promise<Command | null> {
  return (await mailboxOf(mongo, queue).findOne({ _id: id })) as Command | null;
}
