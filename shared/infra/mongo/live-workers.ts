import { SECOND } from '#shared/kernel/time.ts';
import { type Mongo, QUERY_LIMIT_MS } from './connect.ts';

/** A worker process, as it last wrote of itself. */
export interface WorkerRow {
  _id: string;
  actor: string;
  /** What it claims: an actor whose neighbour is not configured leaves a queue out. Absent in rows of older processes. */
  queues?: string[];
  host: string;
  pid: number;
  version: string;
  startedAt: Date;
  seenAt: Date;
  slots: number;
  /** Ids of the commands it is running. */
  busy: string[];
  rssBytes: number;
}

export const WORKERS = 'workers';

/** Rows are written every five seconds: one that is older than this is of a process that was killed. */
const SILENT_MS = 20 * SECOND;

/** The processes that live by `now` (Unix milliseconds, MongoDB's clock), by actor, the oldest of each first. */
export async function liveWorkers(mongo: Mongo, now: number): Promise<WorkerRow[]> {
  return mongo.db
    .collection<WorkerRow>(WORKERS)
    .find({ seenAt: { $gte: new Date(now - SILENT_MS) } }, { maxTimeMS: QUERY_LIMIT_MS })
    .sort({ actor: 1, startedAt: 1 })
    .toArray();
}

/** Whether the queue's actor is at work and leaves it alone: its commands wait until its neighbour is configured. */
export function isLeftAlone(queue: string, actor: string, live: readonly WorkerRow[]): boolean {
  const own = live.filter((row) => row.actor === actor);
  return own.length > 0 && own.every(({ queues }) => queues !== undefined && !queues.includes(queue));
}
