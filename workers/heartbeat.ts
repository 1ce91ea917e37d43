import { hostname } from 'node:os';
import type { Mongo } from '#infra/mongo/connect.ts';
import { type EndedRuns, WORKERS, type WorkerRow } from '#infra/mongo/live-workers.ts';
import { SCHEMA_VERSION } from '#infra/mongo/schema/migrate.ts';
import type { Unanswering } from '#infra/neighbours/unanswering.ts';
import type { Queue } from '#shared/kernel/command.ts';
import { MINUTE, SECOND } from '#shared/kernel/time.ts';
import type { HeldLoop } from '#shared/operations/alarms.ts';

const BEAT_MS = 5 * SECOND;

/**
 * Writes this process's row in `workers` now and every five seconds. `stop` deletes the row. A failed write is ignored, because
 * other parts of the process report that MongoDB is unavailable.
 */
export function startHeartbeat(
  mongo: Mongo,
  self: {
    workerId: string;
    actor: string;
    queues: readonly Queue[];
    version: string;
    /** True if the process connects to a router; undefined: unknown. */
    router: boolean | undefined;
    slots: number;
    busy: () => string[];
    unanswering: () => Unanswering[];
    heldLoop: () => HeldLoop | null;
    /** Returns the number of runs of the process since its start. */
    ended: () => EndedRuns;
  },
): { stop: () => Promise<void> } {
  const rows = mongo.db.collection<WorkerRow>(WORKERS);
  const startedAt = new Date();
  const settled = openDifference(() => self.ended().settled);
  const failed = openDifference(() => self.ended().failed);
  const died = openDifference(() => self.ended().died);

  async function beat(): Promise<void> {
    await rows.updateOne(
      { _id: self.workerId },
      {
        $set: {
          actor: self.actor,
          queues: [...self.queues],
          host: hostname(),
          pid: process.pid,
          version: self.version,
          schema: SCHEMA_VERSION,
          ...(self.router === undefined ? {} : { router: self.router }),
          startedAt,
          slots: self.slots,
          busy: self.busy(),
          rssBytes: process.memoryUsage.rss(),
          unanswering: self.unanswering(),
          heldLoop: self.heldLoop(),
          settled: settled(),
          failed: failed(),
          died: died(),
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

/** Returns a function that is called at each beat and returns by how much each count has grown within the last minute. */
export function openDifference(counts: () => Readonly<Record<string, number>>): () => Record<string, number> {
  const earlier = [counts()];
  return () => {
    const now = counts();
    const first = earlier[0] ?? now;
    earlier.push(now);
    if (earlier.length > MINUTE / BEAT_MS) earlier.shift();
    return Object.fromEntries(Object.entries(now).map(([name, count]) => [name, count - (first[name] ?? 0)]));
  };
}
