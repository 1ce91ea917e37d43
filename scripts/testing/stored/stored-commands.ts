import type { Mongo } from '#infra/mongo/connect.ts';
import type { WorkerRow } from '#infra/mongo/live-workers.ts';
import { claimCommand } from '#infra/mongo/mailbox/claim.ts';
import { type CommandOf, QUEUES } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf, readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { SCHEMA_VERSION } from '#infra/mongo/schema/migrate.ts';
import { actorOf, type Command, type Queue } from '#shared/kernel/command.ts';

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

/** Returns the row of a live worker process of the actor, which serves all queues of it and runs nothing. */
export function workerRow(actor: string, change: Partial<WorkerRow> = {}): WorkerRow {
  return {
    _id: `${actor}@host:1`,
    actor,
    queues: QUEUES.filter((queue) => actorOf(queue) === actor),
    host: 'host',
    pid: 1,
    version: '0.1.0',
    schema: SCHEMA_VERSION,
    startedAt: new Date(),
    seenAt: new Date(),
    slots: 8,
    busy: [],
    rssBytes: 1,
    unanswering: [],
    heldLoop: null,
    settled: {},
    failed: {},
    died: {},
    ...change,
  };
}
