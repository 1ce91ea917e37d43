import type { Rejection } from './errors.ts';

/**
 * Terminology (the whole of it: ARCHITECTURE.md, section 8), used alike in routes, queues, folders and documents:
 * - **front door**: a process that answers HTTP; it writes a command, rings and may wait for the reply.
 * - **command**: a MongoDB document that says what is to be done; the truth. Redis only ever holds its id.
 * - **queue**: the commands of one kind; **mailbox**: the collection in which those of an actor's queues lie.
 * - **doorbell**: the Redis job queue beside a queue; a **ring** on it tells a worker of a command at once, and without it the
 *   worker's poll finds the command.
 * - **claim**: taking a command under a **lease**, a time for which no other worker may; each claim has its own **fence**, and only
 *   the newest may write.
 * - **outcome**: how a run of a command ends; see `workers/actor.ts`.
 * - **actor**: the one kind of process that makes one kind of change; a worker process runs one actor.
 *
 * And of the attempt service: a **paper** is the copied questions of a start, shared by all attempts that copied the same; a
 * **notice** is an outbox row, itself a command; a **release** makes an exam's results visible; a **handoff** brings a grade that
 * was given by hand or by a model.
 *
 * And of the notification service: a **fan-out** makes the rows of many recipients at once; a **channel** is a way to reach a user
 * beside the inbox; a **delivery** is the command that takes one notification over one channel.
 *
 * And of the AI classifier: a **job** classifies questions, five in each **batch**; a **round** of it is all of its work from a start or
 * a retry on. A **preview** is what a model made and nobody has stored; a **generation** is a preview of questions that is paid for,
 * and its **settlement** is that the owners of usage and wallet have taken what it costs.
 */

/** Which commands exist, by their stable queue names. Renaming one strands what is in flight: add, drain, remove. */
export type Queue =
  | 'grading'
  | 'essayhandoff'
  | 'resultsrelease'
  | 'gradenotices:student'
  | 'gradenotices:parent'
  | 'delivery:log'
  | 'delivery:webhook'
  | 'classifier'
  | 'settlement'
  | 'upkeep'
  | 'upkeep:fanouts';

/** A notice that was delivered, a delivery that was sent or suppressed say so in words of their own; others are simply done. */
export type DoneStatus = 'DONE' | 'DELIVERED' | 'SENT' | 'SUPPRESSED';
export type CommandStatus = 'PENDING' | DoneStatus | 'REJECTED' | 'DEAD';

export interface CommandError {
  /** What an operator groups by: the error's name and its message with the varying parts taken out. */
  fingerprint: string;
  message: string;
  at: Date;
}

/** What a command is to do, before it has an id, a time and a budget of attempts. Each queue's maker is in its service's `commands.ts`. */
export interface Order<Q extends Queue, Body> {
  queue: Q;
  /** Unique among live commands: what this command does once and only once. */
  key: string;
  /** For operators: the attempt, exam or job that it is about. */
  subject: string;
  body: Body;
}

/** The stored document. Which body, progress and result go with which queue: `CommandOf` in the mailbox. */
export interface Command<Body = unknown, Progress = unknown, Result = unknown> {
  _id: string;
  /** The version of `body`'s shape, so that old and new processes can share a mailbox. */
  v: 1;
  queue: Queue;
  /** What this command does once and only once; unique among live commands. */
  key: string;
  /** Absent once rejected: the key is free again. */
  live?: true;
  /** What the command is about, for operators: an attempt, an exam. */
  subject: string;
  status: CommandStatus;
  /** Claims that were spent, the current one included. Counted before the run: a command that kills its worker ends dead. */
  attempts: number;
  maxAttempts: number;
  /** When it may be claimed next. While it is leased this is the end of the lease, so one index finds both. */
  nextRunAt: Date;
  lockedUntil: Date | null;
  workerId: string | null;
  /** The MongoDB session of the claim's transactions; who finds its lease over ends it first. Absent until first claimed. */
  session?: string | null;
  /** One more at every claim; a write that names an older fence changes nothing. */
  fence: number;
  body: Body;
  progress: Progress | null;
  /** The rule's no of a rejected command; otherwise what the run found, once it is done. */
  result: Result | Rejection | null;
  lastError: CommandError | null;
  /** How often an operator ran it again after death. */
  replays: number;
  createdAt: Date;
  settledAt: Date | null;
}
