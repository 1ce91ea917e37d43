import type { Command, Queue } from '#shared/kernel/command.ts';
import type { Effects, Outcome } from './outcome.ts';

/** One run of a command, as its actor sees it. */
export interface Run<Body, Progress = unknown> {
  command: Command<Body, Progress>;
  /** Aborted when the lease is lost or the process must end: stop calling out, nothing more can be written. */
  signal: AbortSignal;
  /** One step of long work: its effects and the note of them in one transaction under this claim's fence. */
  checkpoint(progress: Progress, effects: Effects): Promise<void>;
}

/**
 * The only place where its kind of change is made. `run` loads, decides by pure rules and gives the outcome; it may be
 * run again for the same command at any time, by any process.
 */
export interface Actor<Body = never, Progress = never> {
  /** The process type of the Procfile. */
  name: string;
  /** The queues it may claim from now. A queue whose neighbour is not configured is left out: its commands wait, unspent. Without any it idles. */
  queues: readonly Queue[];
  backoff: { baseMs: number; capMs: number };
  /** Lease of its commands (ms), where it is not that of every actor. */
  leaseMs?: number;
  /** Slots of each of its queues, where they are not those of every actor. */
  concurrency?: number;
  /** Its poll (ms), where it is not that of every actor. */
  pollMs?: number;
  run(run: Run<Body, Progress>): Promise<Outcome>;
  /** Recurring commands that must exist while this actor runs; written when it starts, if absent. */
  standing?: readonly { queue: Queue; key: string; subject: string }[];
}
