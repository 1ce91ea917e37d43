import type { Collection } from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { Command, Queue } from '#shared/kernel/command.ts';

/** The collection in which every command lies, but for those whose rows are a product of their own. */
export const COMMANDS = 'commands';
/** The outbox: each row is both a notice to be sent and the command that sends it. */
export const NOTICES = 'attempt_notices';
/** Delivery jobs, one per notification and channel. */
export const DELIVERIES = 'notification_deliveries';

/** Every collection that holds commands, for operators and metrics. */
export const MAILBOXES = [COMMANDS, NOTICES, DELIVERIES] as const;

export const MAILBOX_OF: Readonly<Record<Queue, (typeof MAILBOXES)[number]>> = {
  grading: COMMANDS,
  essayhandoff: COMMANDS,
  resultsrelease: COMMANDS,
  upkeep: COMMANDS,
  'gradenotices:student': NOTICES,
  'gradenotices:parent': NOTICES,
  'delivery:log': DELIVERIES,
  'delivery:webhook': DELIVERIES,
  'upkeep:fanouts': COMMANDS,
  classifier: COMMANDS,
  settlement: COMMANDS,
};

export const QUEUES = Object.keys(MAILBOX_OF) as Queue[];

/** The process type that works on this queue: its name, or what stands before the colon of it. */
export function actorOf(queue: Queue): string {
  return queue.split(':', 1)[0] ?? queue;
}

export function mailboxOf<Body, Progress = unknown, Result = unknown>(
  mongo: Mongo,
  queue: Queue,
): Collection<Command<Body, Progress, Result>> {
  return mongo.db.collection<Command<Body, Progress, Result>>(MAILBOX_OF[queue]);
}
