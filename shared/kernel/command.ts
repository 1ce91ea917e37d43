import type { Cause } from './cause.ts';
import type { Rejection } from './errors.ts';
import type { FailureCode, Refusal } from './failure.ts';

/**
 * Core terms. Routes, queues, folders and documents use them alike; ARCHITECTURE.md, section 8, has the whole glossary.
 * - **front door**: a process that answers HTTP. It writes a command, rings and may wait for the reply.
 * - **command**: a MongoDB document that states what must be done. It is the truth; Redis only ever holds its id and key.
 * - **queue**: the commands of one kind.
 * - **mailbox**: the collection that stores the commands of an actor's queues.
 * - **doorbell**: the Redis job queue beside a queue. A **ring** on it wakes a worker at once; without it, the worker's poll
 *   finds the command.
 * - **claim**: takes a command under a **lease**, a time in which no other worker may claim it. Each claim has its own **fence**,
 *   and only the newest fence may write.
 * - **lapse**: the end of a lease without an outcome. A **suspect** has lapsed twice in a row and runs only alone.
 * - **outcome**: how a run of a command ends; see `workers/actor.ts`.
 * - **actor**: the only kind of process that makes one kind of change. A worker process runs one actor.
 *
 * Attempt service:
 * - **paper**: the copied questions of a start, shared by all attempts that copied the same questions.
 * - **notice**: an outbox row, which is itself a command.
 * - **release**: makes an exam's results visible.
 * - **handoff**: carries the grade of one answer, decided by a person or a model.
 *
 * Notification service:
 * - **fan-out**: creates the rows of many recipients at once.
 * - **channel**: a way to reach a user besides the inbox.
 * - **delivery**: the command that sends one notification over one channel.
 *
 * AI classifier:
 * - **job**: classifies questions, five in each **batch**. Its **round** is all of its work from its start or from one retry.
 * - **preview**: a model's draft that is not stored as content.
 * - **generation**: a preview of questions that is paid for. Its **settlement** is complete once the usage and wallet services
 *   have both accepted the charge.
 */

/**
 * The kinds of commands, by their stable queue names. A renamed queue strands its pending commands: add the new name, let the
 * old queue drain, then remove the old name.
 */
export type Queue =
  | 'grading'
  | 'essayhandoff'
  | 'resultsrelease'
  | 'examroom'
  | 'gradenotices:student'
  | 'gradenotices:parent'
  | 'accountnotices'
  | 'delivery:log'
  | 'delivery:webhook'
  | 'delivery:email'
  | 'delivery:webpush'
  | 'classifier'
  | 'settlement'
  | 'upkeep'
  | 'upkeep:fanouts'
  | 'upkeep:deadletters'
  | 'upkeep:analytics'
  | 'upkeep:audit'
  | 'upkeep:publish'
  | 'upkeep:webhooks';

/** Returns the process type that serves this queue: the queue's name up to a colon. */
export function actorOf(queue: Queue): string {
  return queue.split(':', 1)[0] ?? queue;
}

/** Attempts of a recurring command: a sweep has no last one. */
export const UNLIMITED_ATTEMPTS = Number.MAX_SAFE_INTEGER;

/** Lapses in a row that make a pending command a suspect: it may have blocked or ended two workers, so it runs only alone. */
export const SUSPECT_LAPSES = 2;
/** How the name of a front door begins that runs a command in its own process (`workerId`). */
export const FRONT_DOOR = 'web@';
/** Lapses in a row after which a command is dead: its run alone has lapsed as well. A recurring command runs alone again instead. */
export const FATAL_LAPSES = 3;

/**
 * Queues of events out: copies of what has happened, for other services. No caller waits for one, and nothing in examhall depends on its
 * arrival. Their dead letters are listed and replayed like all others, and are a note in place of an alarm.
 */
export const EVENT_QUEUES: readonly Queue[] = ['upkeep:analytics', 'upkeep:audit', 'upkeep:publish', 'upkeep:webhooks'];

/** Queues whose slots may go round in turn: round the organizations, or for messages round their receivers. */
export const TURN_QUEUES = ['classifier', 'upkeep:webhooks'] as const satisfies readonly Queue[];
export type TurnQueue = (typeof TURN_QUEUES)[number];

/** Returns the name of the index of a queue's pending commands in the order of their organizations. */
export const dueInTurns = (queue: TurnQueue): string => `due_in_turns_${queue.replace('upkeep:', '')}`;

/** Attempts of an event out before it is dead: about a day, at the longest wait of an hour. */
export const EVENT_ATTEMPTS = 30;

/** Successful end states: a notice ends DELIVERED, a delivery SENT or SUPPRESSED, every other command DONE. */
export type DoneStatus = 'DONE' | 'DELIVERED' | 'SENT' | 'SUPPRESSED';
export type CommandStatus = 'PENDING' | DoneStatus | 'REJECTED' | 'DEAD';

/**
 * How an operator has marked a dead letter. `ACKNOWLEDGED`: it raises no alarm and stays in the list. `DROPPED`: it leaves the list and is
 * never replayed. The command stays DEAD in either case, so its key stays taken and its senders get the same replies.
 */
export type DeadLetterMark = 'ACKNOWLEDGED' | 'DROPPED';

export interface CommandError {
  /** Groups errors of one cause for operators: the error's name, and its message without the varying parts. */
  fingerprint: string;
  message: string;
  at: Date;
  /** Null if the cause has no code. */
  code: FailureCode | null;
  /** The refusal behind the code MISCONFIGURED, and when its row of equal ones began. Null for any other failure. */
  refusal: (Refusal & { since: Date }) | null;
}

/**
 * The task of a command before it has an id, a time and a budget of attempts. Each service creates its orders in
 * `shared/<service>/commands.ts`.
 */
export interface Order<Q extends Queue, Body> {
  queue: Q;
  /** Names the change that this command makes exactly once. Unique among live commands. */
  key: string;
  /** The attempt, exam or job that the command concerns; shown to operators. */
  subject: string;
  /** The organization in whose turn the command runs, on queues whose slots go round the organizations; for a message its subscription. */
  organizationId?: string;
  body: Body;
}

/** The fields that lead to a command: the queue names its mailbox, and the key decides on which shard it is. */
export type CommandRef<Q extends Queue = Queue> = Pick<Command, '_id' | 'key'> & { queue: Q };

/** The stored document. `CommandOf` in the mailbox maps each queue to its body, progress and result. */
export interface Command<Body = unknown, Progress = unknown, Result = unknown> {
  _id: string;
  /** Version of the shape of `body`, so that old and new processes can share a mailbox. */
  v: 1;
  queue: Queue;
  /** Names the change that this command makes exactly once. Unique among live commands. */
  key: string;
  /** Unset when the command is rejected, which frees its key. */
  live?: true;
  /** The attempt, exam or job that the command concerns; shown to operators. */
  subject: string;
  /** As in its order; absent if the queue has no turns. */
  organizationId?: string;
  /** The request that posted it, or that of the command which did. Absent in recurring commands. */
  cause?: Cause;
  status: CommandStatus;
  /**
   * Claims that were not refunded, including the current one. Counted before the run, so that a command that kills its worker
   * each time ends dead instead of looping.
   */
  attempts: number;
  maxAttempts: number;
  /** Lapses in a row: claims whose lease expired without an outcome. The claim that takes over counts them. Absent: none. */
  lapses?: number;
  /** The earliest time of the next claim. While leased it is the end of the lease, so one index finds due and abandoned commands. */
  nextRunAt: Date;
  lockedUntil: Date | null;
  /** When the command first came due; stored by its first claim, for metrics. Absent before. */
  dueAt?: Date;
  workerId: string | null;
  /**
   * Id of the MongoDB session in which the claim's transactions run. A worker that claims the command after its lease expired
   * ends this session first. Absent until the first claim.
   */
  session?: string | null;
  /** Grows by one at every claim. A write that names an older fence changes nothing. */
  fence: number;
  body: Body;
  progress: Progress | null;
  /** The rejection of a rejected command; the result of the run once the command is done; null before. */
  result: Result | Rejection | null;
  lastError: CommandError | null;
  /** Its last run failed, and an outcome has not ended the row of failures yet. Absent otherwise. */
  failing?: true;
  /** When the first run of that row failed; present together with `failing`. */
  failingSince?: Date;
  /** When it was claimed last, or when its run stored its last step. Absent before the first claim. */
  movedAt?: Date;
  /** Number of times that an operator replayed the command after it was dead. */
  replays: number;
  /** Mark of an operator on a dead command. Absent until then, and again after a replay. */
  letter?: DeadLetterMark;
  createdAt: Date;
  settledAt: Date | null;
}
