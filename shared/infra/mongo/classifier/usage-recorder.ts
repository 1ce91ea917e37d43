import type { Log } from '#infra/log/log.ts';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { openBackground } from '#infra/process/background.ts';
import type { UsageEvent } from '#shared/classifier/provider/circuit.ts';
import { newId } from '#shared/kernel/ids.ts';
import { usageEvents } from './collections.ts';

/** Stores usage events behind the calls that they tell of. */
export interface UsageRecorder {
  /** Returns at once, never throws; what does not fit into the line is counted as lost. */
  record(event: UsageEvent): void;
  /** Lets what waits be written, for so long. */
  close(limitMs: number): Promise<void>;
}

/** Writes at once, and events that wait for one. They hold no prompt and are small. */
const LINE = { concurrency: 4, maxWaiting: 2_000 };

/** A MongoDB that is slow or away costs events and never an answer. */
export function openUsageRecorder(mongo: Mongo, log: Pick<Log, 'warn'>): UsageRecorder {
  const line = openBackground({
    ...LINE,
    dropped: (count) => log.warn({ count }, 'usage events were lost'),
    failed: (err) => log.warn({ err }, 'a usage event was lost'),
  });
  return {
    record(event) {
      const row = { _id: newId(event.createdAt.getTime()), ...event };
      line.run(async () => void (await usageEvents(mongo).insertOne(row, { maxTimeMS: QUERY_LIMIT_MS })));
    },
    close: async (limitMs) => void (await line.end(limitMs)),
  };
}
