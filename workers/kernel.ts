import type { Log } from '#infra/log/log.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { Queue } from '#shared/kernel/command.ts';

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

/** How a run ended for this worker; `not-ours` and `fenced` leave the command to somebody else. */
export type Ending = 'done' | 'rejected' | 'retried' | 'snoozed' | 'dead' | 'not-ours' | 'fenced';
