import type { Mongo } from '#infra/mongo/connect.ts';
import { claimCommand } from '#infra/mongo/mailbox/claim.ts';
import type { CommandOf } from '#infra/mongo/mailbox/commands.ts';
import type { Command, Queue } from '#shared/kernel/command.ts';
import { expire } from './stored-commands.ts';

const LEASE_MS = 60_000;

/** Makes a command a suspect, as two workers that it has ended and the worker that holds it do. Returns it. */
export async function makeSuspect(mongo: Mongo, command: Command): Promise<CommandOf<Queue>> {
  for (const workerId of ['first', 'second']) {
    await claimCommand(mongo, command, { workerId, leaseMs: LEASE_MS });
    await expire(mongo, command);
  }
  const claim = await claimCommand(mongo, command, { workerId: 'third', leaseMs: LEASE_MS });
  if (claim.kind !== 'held') throw new Error(`the claim after two lapses is ${claim.kind}`);
  return claim.command;
}
