import type { Unanswering } from '#infra/neighbours/unanswering.ts';
import { SECOND } from '#shared/kernel/time.ts';
import type { HeldLoop } from '#shared/operations/alarms.ts';
import { type Mongo, QUERY_LIMIT_MS } from './connect.ts';

/** Numbers of runs of a process, by queue. */
export interface EndedRuns {
  /** Commands that ended done or rejected. */
  settled: Readonly<Record<string, number>>;
  /** Runs after which the command runs again, with or without a spent attempt. */
  failed: Readonly<Record<string, number>>;
  /** Commands that ended dead. */
  died: Readonly<Record<string, number>>;
}

/** A worker process, as it last described itself. The runs are those of the last minute. */
export interface WorkerRow extends EndedRuns {
  _id: string;
  actor: string;
  /** The queues that it serves. An actor omits a queue whose neighbour is not configured. */
  queues: string[];
  host: string;
  pid: number;
  version: string;
  /** The schema version that the process needs. */
  schema: number;
  /** True if the process connects to a router of a sharded cluster. Absent if it does not know. */
  router?: boolean;
  startedAt: Date;
  seenAt: Date;
  slots: number;
  /** Ids of the commands that it runs. */
  busy: string[];
  rssBytes: number;
  /** Services that did not answer the last call of this process. */
  unanswering: Unanswering[];
  /** The longest recent piece of work that held the event loop of this process. */
  heldLoop: HeldLoop | null;
}

export const WORKERS = 'workers';

/** Age at which a row belongs to a killed process. Live processes write their row every five seconds. */
const SILENT_MS = 20 * SECOND;

/** Returns the processes that are alive at `now` (Unix milliseconds, MongoDB's clock), sorted by actor and start time. */
export async function liveWorkers(mongo: Mongo, now: number): Promise<WorkerRow[]> {
  return mongo.db
    .collection<WorkerRow>(WORKERS)
    .find({ seenAt: { $gte: new Date(now - SILENT_MS) } }, { maxTimeMS: QUERY_LIMIT_MS })
    .sort({ actor: 1, startedAt: 1 })
    .toArray();
}

/** Returns true if the queue's actor runs but does not serve the queue. Its commands wait until a neighbour is configured. */
export function isUnserved(queue: string, actor: string, live: readonly WorkerRow[]): boolean {
  const own = live.filter((row) => row.actor === actor);
  return own.length > 0 && own.every(({ queues }) => !queues.includes(queue));
}
