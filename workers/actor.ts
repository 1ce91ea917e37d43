import type { ClientSession } from 'mongodb';
import type { Config } from '#infra/config/config.ts';
import type { Log } from '#infra/log/log.ts';
import type { Papers } from '#infra/mongo/attempt/papers.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { type CommandOf, type Commands, QUEUES } from '#infra/mongo/mailbox/commands.ts';
import type { Background } from '#infra/process/background.ts';
import type { Models } from '#shared/classifier/tasks/task.ts';
import type { DoneStatus, Queue } from '#shared/kernel/command.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import type { Now } from '#shared/kernel/time.ts';

/** One run of a command, as its actor sees it. */
export interface Run<Q extends Queue> {
  command: CommandOf<Q>;
  /** Aborted when the lease is lost or the process must end: stop calling out, nothing more can be written. */
  signal: AbortSignal;
  /** One step of long work: its effects and the note of them in one transaction under this claim's fence. */
  checkpoint(progress: Commands[Q]['progress'], effects: Effects): Promise<void>;
}

/**
 * What an actor does for each queue that it serves: loads, decides by pure rules and returns the outcome. It may be run again for
 * the same command at any time, by any process. A queue whose neighbour is not configured has no handler: its commands wait, unspent.
 */
export type Handlers = { [Q in Queue]?: (run: Run<Q>) => Promise<Outcome<Q>> };

/** The only place where its kind of change is made. Without handlers it idles. */
export interface Actor {
  /** The process type of the Procfile. */
  name: string;
  handlers: Handlers;
  backoff: { baseMs: number; capMs: number };
  /** Lease of its commands (ms), where it is not that of every actor. */
  leaseMs?: number;
  /** Slots of each of its queues, where they are not those of every actor. */
  concurrency?: number;
  /** Its poll (ms), where it is not that of every actor. */
  pollMs?: number;
  /** Recurring commands that must exist while this actor runs; written when it starts, if absent. */
  standing?: readonly { queue: Queue; key: string; subject: string }[];
}

/** The queues that an actor may claim from. */
export function queuesOf({ handlers }: Actor): Queue[] {
  return QUEUES.filter((queue) => handlers[queue] !== undefined);
}

/** What a commit does beside settling its command; MongoDB commands of this session only, run again on a conflict. */
export type Effects = (session: ClientSession) => Promise<void>;

/**
 * How a run of a command ends; closed, and matched exhaustively where it is settled.
 *
 * Effects and what becomes of the command are one transaction, in which the command is written first: effects that need to
 * know when it will run again, or whether it is dead, read it in their session.
 *
 * - `done`: `after` is called once that has committed, best effort: what it starts may be lost by a crash and must be
 *   allowed to, and it holds up nothing. `as` is the command's status then, DONE unless it has a word of its own.
 * - `rejected`: a rule said no. Nothing was changed, the command's key is free, the sender may try again.
 * - `retry`: this attempt is spent; again after the backoff, dead when none is left. `afterMs` lengthens it.
 * - `snooze`: not its turn yet; the attempt is given back.
 * - `dead`: trying again cannot help; an operator must look.
 *
 * Throwing is `retry`, unless MongoDB or the network is at fault: then it is `snooze`.
 */
export type Outcome<Q extends Queue = Queue> =
  | { kind: 'done'; result: Commands[Q]['result']; as?: DoneStatus; effects?: Effects; after?: () => void }
  | { kind: 'rejected'; result: Rejection }
  | { kind: 'retry'; error: Error; afterMs?: number; effects?: Effects }
  | { kind: 'snooze'; afterMs: number; error?: Error; effects?: Effects }
  | { kind: 'dead'; error: Error; effects?: Effects };

/** What an operator should see in `/metrics`. */
export type Alarm = 'analytics_failed' | 'background_dropped' | 'notice_misconfigured';

/** What every actor is made of. */
export interface WorkerDeps {
  mongo: Mongo;
  papers: Papers;
  /** MongoDB's time. */
  now: Now;
  log: Log;
  config: Config;
  /** Wakes another actor for a command that is already committed; may be lost, never throws. */
  ring: (queue: Queue, commandId: string) => void;
  /** Wakes the streams that follow this job; may be lost, never throws. */
  tellJob: (jobId: string) => void;
  /** Whoever can be asked to classify; opened by the first actor that wants it. */
  models: () => Models;
  /** Best-effort work that must hold no slot. */
  background: Background;
  /** Counts something that an operator should see in `/metrics`. */
  alarm: (name: Alarm) => void;
}
