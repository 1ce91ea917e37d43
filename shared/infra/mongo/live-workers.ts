import { SECOND } from '../../kernel/clock.ts';
import { type Mongo, QUERY_LIMIT_MS } from './connect.ts';

/** A worker process, as it last wrote of itself. */
export interface WorkerRow {
  _id: string;
  actor: string;
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

/** How many live processes each actor has; actors that have ever had one are named, with 0 when none is left. */
export async function liveWorkers(mongo: Mongo, now: number): Promise<Map<string, number>> {
  const rows = await mongo.db.collection<WorkerRow>(WORKERS).find({}, { maxTimeMS: QUERY_LIMIT_MS }).toArray();
  const counts = new Map<string, number>();
  for (const { actor, seenAt } of rows) {
    counts.set(actor, (counts.get(actor) ?? 0) + (now - seenAt.getTime() <= SILENT_MS ? 1 : 0));
  }
  return counts;
}
