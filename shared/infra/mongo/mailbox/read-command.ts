import type { Command, Queue } from '../../../kernel/command.ts';
import type { Mongo } from '../connect.ts';
import { mailboxOf } from './mailbox.ts';

/** The command as it stands, or null. */
export async function readCommand(mongo: Mongo, queue: Queue, id: string): Promise<Command | null> {
  return (await mailboxOf(mongo, queue).findOne({ _id: id })) as Command | null;
}
