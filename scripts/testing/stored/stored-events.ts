import type { Mongo } from '#infra/mongo/connect.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { insertFanOut } from '#infra/mongo/notification/fan-out.ts';
import { analyticsOrder } from '#shared/attempt/commands.ts';
import type { Command } from '#shared/kernel/command.ts';
import { auditOrder } from '#shared/notification/commands.ts';
import { sampleFanOut } from './sample-fan-out.ts';
import { graded, type PostOptions, storeAttempt } from './stored-attempts.ts';

/** Commands that send events out, each with what it is about. They are due one second ago by default. */

/** Stores a graded attempt, and posts the command that reports its grading to the analytics service. */
export async function postAnalytics(mongo: Mongo, { maxAttempts = 10, runAt }: PostOptions = {}): Promise<Command> {
  const attempt = await storeAttempt(mongo, graded());
  const command = newCommand({
    ...analyticsOrder(attempt, new Date('2026-05-04T03:31:00.000Z')),
    maxAttempts,
    now: runAt ?? Date.now() - 1_000,
  });
  await mailboxOf(mongo, 'upkeep:analytics').insertOne(command);
  return command;
}

/** Stores an event as a front door does whose audit service is configured. Returns the command that reports it there. */
export async function postAudit(mongo: Mongo, { maxAttempts = 10, runAt }: PostOptions = {}): Promise<Command> {
  const fanOut = sampleFanOut({ rows: 1 });
  const audit = newCommand({
    ...auditOrder(fanOut.fanOutId),
    maxAttempts,
    now: runAt ?? Date.now() - 1_000,
  });
  await insertFanOut(mongo, { ...fanOut, audit });
  return audit;
}

/** Ids of the events that the report of `postAnalytics` sends. */
export function analyticsIds({ subject }: Pick<Command, 'subject'>): string[] {
  return [`${subject}:submitted`, `${subject}:graded`];
}
