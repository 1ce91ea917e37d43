import type { AttemptCommands } from '#shared/attempt/commands.ts';
import type { ClassifierCommands } from '#shared/classifier/commands.ts';
import type { Command, Order, Queue } from '#shared/kernel/command.ts';
import { newId } from '#shared/kernel/ids.ts';
import type { NotificationCommands } from '#shared/notification/commands.ts';

/** One queue serves the sweeps of every service: recurring commands that end what its process left behind. Their keys are in the services. */
interface SweepCommands {
  upkeep: { body: object; progress: null; result: never };
}

/** What each queue carries. A queue of the kernel that no service declares does not compile. */
export interface Commands extends AttemptCommands, ClassifierCommands, NotificationCommands, SweepCommands {}

/** The command of one queue, or of any of several. */
export type CommandOf<Q extends Queue> = Command<
  Commands[Q]['body'],
  Commands[Q]['progress'],
  Commands[Q]['result']
> & { queue: Q };

interface NewCommand<Q extends Queue> extends Order<Q, Commands[Q]['body']> {
  maxAttempts: number;
  /** Unix milliseconds by MongoDB's clock. */
  now: number;
  /** Not before this; default at once (Unix milliseconds). */
  runAt?: number;
  /** Default a new one; the key, where one row is both a product and the command for it. */
  id?: string;
}

/** The document of a command that no worker has claimed yet. */
export function newCommand<Q extends Queue>(wanted: NewCommand<Q>): CommandOf<Q> {
  return {
    _id: wanted.id ?? newId(wanted.now),
    v: 1,
    queue: wanted.queue,
    key: wanted.key,
    live: true,
    subject: wanted.subject,
    status: 'PENDING',
    attempts: 0,
    maxAttempts: wanted.maxAttempts,
    nextRunAt: new Date(wanted.runAt ?? wanted.now),
    lockedUntil: null,
    workerId: null,
    fence: 0,
    body: wanted.body,
    progress: null,
    result: null,
    lastError: null,
    replays: 0,
    createdAt: new Date(wanted.now),
    settledAt: null,
  };
}

/** The collection of every command, but for those whose rows are a product of their own. */
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
