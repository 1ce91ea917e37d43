import { hostname } from 'node:os';
import { SECOND } from '../shared/kernel/clock.ts';
import type { Mongo } from '../shared/infra/mongo/connect.ts';

/** A live worker process, as `examhall workers` shows it. A row not seen for a minute is of a dead one. */
export interface WorkerRow {
  _id: string;
  actor: string;
  host: string;
  pid: number;
  version: string;
  startedAt: Date;
  seenAt: Date;
  slots: number;
  busy: string[];
  rssBytes: number;
}

export const WORKERS = 'workers';
const BEAT_MS = 5 * SECOND;

/** Writes this process's row now and each five seconds; `stop` takes it away. MongoDB being away is no fault of it. */
export function startHeartbeat(
  mongo: Mongo,
  self: { workerId: string; actor: string; version: string; slots: number; busy: () => string[] },
): { stop: () => Promise<void> } {
  const rows = mongo.db.collection<WorkerRow>(WORKERS);
  const startedAt = new Date();

  async function beat(): Promise<void> {
    await rows.updateOne(
      { _id: self.workerId },
      {
        $set: {
          ...{ actor: self.actor, host: hostname(), pid: process.pid, version: self.version, startedAt, slots: self.slots },
          ...{ busy: self.busy(), rssBytes: process.memoryUsage.rss() },
        },
        $currentDate: { seenAt: true },
      },
      { upsert: true },
    );
  }

  const tick = () => void beat().catch(() => undefined);
  tick();
  const timer = setInterval(tick, BEAT_MS);
  return {
    async stop() {
      clearInterval(timer);
      await rows.deleteOne({ _id: self.workerId }).catch(() => undefined);
    },
  };
}
