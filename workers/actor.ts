import type { ClientSession } from 'mongodb';
import type { Config } from '#infra/config/config.ts';
import type { Log } from '#infra/log/log.ts';
import type { FindAttempt } from '#infra/mongo/attempt/attempts.ts';
import type { GradingPaper } from '#infra/mongo/attempt/corrections.ts';
import type { NoteExam } from '#infra/mongo/attempt/exams.ts';
import type { Papers } from '#infra/mongo/attempt/papers.ts';
import type { BindingRelease } from '#infra/mongo/attempt/release.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { type CommandOf, type Commands, QUEUES } from '#infra/mongo/mailbox/commands.ts';
import type { Wanted } from '#infra/mongo/operations/subscriptions.ts';
import type { Writes } from '#infra/mongo/writes.ts';
import type { Background } from '#infra/process/background.ts';
import type { Models } from '#shared/classifier/tasks/envelope.ts';
import type { CommandRef, DoneStatus, Queue, TurnQueue } from '#shared/kernel/command.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import type { Now } from '#shared/kernel/time.ts';

/** One run of a claimed command, as passed to the actor's handler. */
export interface Run<Q extends Queue> {
  command: CommandOf<Q>;
  /** Aborted when the lease is lost or the process stops. The run can write nothing from then on, so make no further calls. */
  signal: AbortSignal;
  /** Commits one step of a long run: its effects and its progress, in one transaction under the fence of this claim. */
  checkpoint(progress: Commands[Q]['progress'], effects: Effects): Promise<void>;
  /**
   * Session of the claim. Pass it to every read on which the outcome depends: the read then shows whatever was committed together with the
   * command, on any shard. Never use it while a checkpoint is in progress, whose transaction the read would join, and never for two
   * reads at the same time.
   */
  session: ClientSession;
}

/**
 * One handler for each queue of an actor. It loads, decides by pure rules and returns the outcome. Any process may run it again
 * for the same command at any time. It loads in `Run.session`.
 *
 * A queue whose neighbour is not configured has no handler. Its commands wait and spend no attempt.
 */
export type Handlers = { [Q in Queue]?: (run: Run<Q>) => Promise<Outcome<Q>> };

/** Waits between the attempts of a command: the first one, and the upper bound up to which they double. */
export interface Backoff {
  baseMs: number;
  capMs: number;
}

/** The only place that makes its kind of change. Without handlers it claims nothing. */
export interface Actor {
  /** The process type of the Procfile. */
  name: string;
  handlers: Handlers;
  backoff: Backoff;
  /** Backoff of single queues. Default: that of the actor. */
  backoffOf?: { [Q in Queue]?: Backoff };
  /** Lease of its commands, in milliseconds. Default: the configured lease of workers. */
  leaseMs?: number;
  /** Slots of each of its queues. Default: the configured concurrency of workers. */
  concurrency?: number;
  /**
   * Queues whose slots go round the organizations in turn, or round the receivers, with the part of the slots that one of them may hold.
   * Default: the command that has been due longest is first.
   */
  turns?: { readonly [Q in TurnQueue]?: 'ALL' | 'HALF' };
  /** The queue that it yields to: no caller waits for its own commands, but one does for those. */
  yieldsTo?: Queue;
  /** Interval of its poll, in milliseconds. Default: the configured poll interval of workers. */
  pollMs?: number;
  /** Recurring commands that must exist while this actor runs. The worker inserts missing ones when it starts. */
  recurring?: readonly { queue: Queue; key: string; subject: string }[];
}

/** Returns the queues that an actor may claim from: those with a handler. */
export function queuesOf({ handlers }: Actor): Queue[] {
  return QUEUES.filter((queue) => handlers[queue] !== undefined);
}

/**
 * The writes that commit together with the command's new state. They may use only MongoDB commands of this session, and run
 * again after a conflict.
 */
export type Effects = (session: ClientSession) => Promise<void>;

/** Effects as data. They may share one transaction with those of other commands that end at the same moment. */
export type GroupedEffects = readonly Writes[];

/**
 * How a run of a command ends. The list is closed, and `settle.ts` matches it exhaustively.
 *
 * The effects and the command's new state are one transaction, which writes the command first. Effects can therefore read in
 * their session when the command runs again, or whether it is dead.
 *
 * - `done`: the command gets the status `as`, default DONE. `after` is called once the transaction has committed. It must not
 *   block, and the work that it starts may be lost in a crash.
 * - `rejected`: a rule refused. Nothing else is written and the command's key is free, so the sender may send again.
 * - `retry`: the attempt is spent. The command runs again after the backoff, or is dead if no attempt is left. `afterMs` can
 *   only lengthen the backoff.
 * - `snooze`: the command is due again after `afterMs`, and its attempt is refunded.
 * - `dead`: another run cannot help. An operator must decide.
 *
 * A thrown error counts as `retry`, or as `snooze` if MongoDB or the network is at fault.
 */
export type Outcome<Q extends Queue = Queue> =
  | {
      kind: 'done';
      result: Commands[Q]['result'];
      as?: DoneStatus;
      effects?: Effects | GroupedEffects;
      after?: () => void;
    }
  | { kind: 'rejected'; result: Rejection }
  | { kind: 'retry'; error: Error; afterMs?: number; effects?: Effects }
  | { kind: 'snooze'; afterMs: number; error?: Error; effects?: Effects }
  | { kind: 'dead'; error: Error; effects?: Effects };

/** Names of the counters in `/metrics` that an operator should watch. */
export const ALARMS = [
  'analytics_failed',
  'audit_failed',
  'background_dropped',
  'notice_misconfigured',
  'parents_left_out',
  'subscription_disabled',
] as const;
export type Alarm = (typeof ALARMS)[number];

/** The dependencies that every actor is built with. */
export interface WorkerDeps {
  mongo: Mongo;
  papers: Papers;
  findAttempt: FindAttempt;
  bindingRelease: BindingRelease;
  gradingPaper: GradingPaper;
  /** Completes the row of the exam of an attempt that is graded. */
  completeExam: NoteExam;
  /** Returns MongoDB's time, in Unix milliseconds. */
  now: Now;
  log: Log;
  config: Config;
  /** Wakes another actor for a committed command. The ring may be lost. Never throws. */
  ring: (command: CommandRef) => void;
  /** Wakes the streams that follow this job. The notification may be lost. Never throws. */
  publishJobChange: (jobId: string) => void;
  /** Returns the client of the model provider. The first call opens it. */
  models: () => Models;
  /** Runs best-effort work that must hold no slot. */
  background: Background;
  /** The types of events that a subscription wants. */
  wanted: Wanted;
  /** Increments one of the counters that an operator watches in `/metrics`. */
  alarm: (name: Alarm) => void;
}
