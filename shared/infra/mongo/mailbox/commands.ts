import { causeOfPost } from '#infra/trace/spans.ts';
import type { AttemptCommands } from '#shared/attempt/commands.ts';
import type { AuthCommands } from '#shared/auth/notices.ts';
import type { ClassifierCommands } from '#shared/classifier/commands.ts';
import type { ExamRoomCommands } from '#shared/exam-room/exam-act.ts';
import type { Command, Order, Queue } from '#shared/kernel/command.ts';
import type { EventCommands } from '#shared/kernel/event-out.ts';
import { newId } from '#shared/kernel/ids.ts';
import type { NotificationCommands } from '#shared/notification/commands.ts';
import type { BulkCommands } from '#shared/operations/bulk-act.ts';

/** The queue `upkeep` serves the sweeps of every service: recurring commands that finish abandoned work. The services define their keys. */
interface SweepCommands {
  upkeep: { body: object; progress: SweepProgress | null; result: never };
}

/** Position at which the next sweep resumes: `attempts` is that of the retention, null at the beginning. */
interface SweepProgress {
  attempts: { at: Date; passed: number } | null;
}

/** Body, progress and result of each queue. A queue of the kernel that no service declares is a compile error. */
export interface Commands
  extends AttemptCommands,
    AuthCommands,
    BulkCommands,
    ClassifierCommands,
    EventCommands,
    ExamRoomCommands,
    NotificationCommands,
    SweepCommands {}

/** The command of one queue; of a union of queues, a command of any of them. */
export type CommandOf<Q extends Queue> = Command<
  Commands[Q]['body'],
  Commands[Q]['progress'],
  Commands[Q]['result']
> & { queue: Q };

interface NewCommand<Q extends Queue> extends Order<Q, Commands[Q]['body']> {
  maxAttempts: number;
  /** Unix milliseconds by MongoDB's clock. */
  now: number;
  /** Earliest time of the first run, in Unix milliseconds. Default: `now`. */
  runAt?: number;
  /** Number of commands that are posted together with it, itself included. Default: 1. */
  posted?: number;
  /** Default: a new id. An outbox row or a delivery, which is a product and a command in one, uses its key. */
  id?: string;
}

/** Returns the document of a new command, which no worker has claimed yet. Its cause is that of the work in progress. */
export function newCommand<Q extends Queue>(wanted: NewCommand<Q>): CommandOf<Q> {
  const _id = wanted.id ?? newId(wanted.now);
  const cause = causeOfPost({ _id, queue: wanted.queue }, wanted.posted ?? 1);
  return {
    _id,
    v: 1,
    queue: wanted.queue,
    key: wanted.key,
    live: true,
    subject: wanted.subject,
    ...(wanted.organizationId === undefined ? {} : { organizationId: wanted.organizationId }),
    ...(cause === undefined ? {} : { cause }),
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

/** The collection of all commands that are not also a product (a notice or a delivery). */
export const COMMANDS = 'commands';
/** The outbox. Each row is a notice and the command that sends it. */
export const NOTICES = 'attempt_notices';
/** Delivery jobs, one per notification and channel. */
export const DELIVERIES = 'notification_deliveries';

/** Every collection that holds commands, for operators and metrics. */
export const MAILBOXES = [COMMANDS, NOTICES, DELIVERIES] as const;

export const MAILBOX_OF: Readonly<Record<Queue, (typeof MAILBOXES)[number]>> = {
  grading: COMMANDS,
  essayhandoff: COMMANDS,
  resultsrelease: COMMANDS,
  examroom: COMMANDS,
  upkeep: COMMANDS,
  'gradenotices:student': NOTICES,
  'gradenotices:parent': NOTICES,
  accountnotices: COMMANDS,
  'delivery:log': DELIVERIES,
  'delivery:webhook': DELIVERIES,
  'delivery:email': DELIVERIES,
  'delivery:webpush': DELIVERIES,
  'upkeep:fanouts': COMMANDS,
  'upkeep:deadletters': COMMANDS,
  'upkeep:analytics': COMMANDS,
  'upkeep:audit': COMMANDS,
  'upkeep:publish': COMMANDS,
  'upkeep:webhooks': COMMANDS,
  classifier: COMMANDS,
  settlement: COMMANDS,
};

/**
 * Personal fields of a body that no end of its command keeps, by queue. A message to a subscriber may be written while its student is erased,
 * and no later erasure finds it. A replay of a dead one reads the student from the attempt.
 */
export const LEFT_BEHIND: { readonly [Q in Queue]?: readonly `body.${keyof Commands[Q]['body'] & string}`[] } = {
  'upkeep:webhooks': ['body.studentId'],
};

export const QUEUES = Object.keys(MAILBOX_OF) as Queue[];
