import type { Mongo } from '#infra/mongo/connect.ts';
import { mailboxOf, readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import type { Command } from '#shared/kernel/command.ts';

/** Reads the command again. @throws Error if it does not exist */
export async function again(mongo: Mongo, command: Command): Promise<Command> {
  const found = await readCommand(mongo, command);
  if (found === null) throw new Error(`command ${command._id} is gone`);
  return found;
}

/** Makes the command due now, as time would: ends its lease or its backoff. */
export async function expire(mongo: Mongo, command: Command): Promise<void> {
  const past = new Date(Date.now() - 60_000);
  await mailboxOf(mongo, command.queue).updateOne(
    { _id: command._id },
    { $set: { nextRunAt: past, ...((await again(mongo, command)).lockedUntil === null ? {} : { lockedUntil: past }) } },
  );
}
