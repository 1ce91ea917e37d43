import type { Command, Queue } from '../../../kernel/command.ts';
import type { Mongo } from '../connect.ts';
import { mailboxOf } from './mailbox.ts';

/** The command as it stands, or null. */
export async function readCommand(mongo: Mongo, queue: Queue, id: string): Promise<Command | null> {
  return (await mailboxOf(mongo, queue).findOne({ _id: id })) as Command | null;
}

/** Whether its worker has finished with it, one way or the other. */
export async function isSettled(mongo: Mongo, queue: Queue, id: string): Promise<boolean> {
  const state = await mailboxOf(mongo, queue).findOne({ _id: id }, { projection: { status: 1 } });
  return state !== null && state.status !== 'PENDING';
}
