import type { ClientSession } from 'mongodb';
import type { Log } from '#infra/log/log.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { isOutage } from '#infra/mongo/faults.ts';
import type { CommandOf } from '#infra/mongo/mailbox/commands.ts';
import type { Queue } from '#shared/kernel/command.ts';
import { isNetworkFault } from '#shared/kernel/network-fault.ts';
import type { Actor, Outcome } from './actor.ts';
import type { Lease } from './lease.ts';

/** How long a command waits when MongoDB or the network, and not the command, is at fault. */
const OUTAGE_REST_MS = 1_000;

/** What a worker process gives every run. */
export interface Kernel {
  mongo: Mongo;
  log: Log;
  workerId: string;
  leaseMs: number;
  /** Tells waiting front doors that the command has settled; never throws, may be lost. */
  announce: (commandId: string) => void;
  count: (queue: Queue, ending: Ending) => void;
  random: () => number;
  /** Aborted when the process must end: runs are cut short and their commands put back. */
  stop: AbortSignal;
}

/** How a run ended for this worker; `not-ours` and `fenced` leave the command to another worker. */
export type Ending = 'done' | 'rejected' | 'retried' | 'snoozed' | 'dead' | 'not-ours' | 'fenced';

/** A claimed command, and all that is needed to run it and to write in its name. */
export interface Life<Q extends Queue> {
  kernel: Kernel;
  actor: Actor;
  command: CommandOf<Q>;
  session: ClientSession;
  lease: Lease;
}

/** The outcome of a run that threw. An outage or a stop spends no attempt. */
export function outcomeOfFault(kernel: Kernel, thrown: unknown): Outcome {
  const error = thrown instanceof Error ? thrown : new Error(String(thrown));
  if (kernel.stop.aborted) return { kind: 'snooze', afterMs: 0, error };
  if (isOutage(error) || isNetworkFault(error)) return { kind: 'snooze', afterMs: OUTAGE_REST_MS, error };
  return { kind: 'retry', error };
}
