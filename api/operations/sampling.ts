import type { Log } from '#infra/log/log.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { storeSample } from '#infra/mongo/operations/samples.ts';
import { type Now, SECOND } from '#shared/kernel/time.ts';

/** Interval at which a front door checks whether the sample of the minute exists: one late check costs no minute. */
const CHECK_MS = 20 * SECOND;

/**
 * Stores a sample of all queues each minute, for the charts of the console. All front doors of a cluster store one together. A failed one is a gap
 * in the charts and no more: other parts of the process report that MongoDB is unavailable.
 */
export function startSampling(deps: { mongo: Mongo; now: Now; log: Pick<Log, 'debug'>; usable: () => boolean }): {
  stop(): void;
} {
  const { mongo, now, log, usable } = deps;
  let isRunning = false;

  async function sample(): Promise<void> {
    if (isRunning || !usable()) return;
    isRunning = true;
    try {
      await storeSample(mongo, now());
    } catch (err) {
      log.debug({ err }, 'sample of the queues was not stored');
    } finally {
      isRunning = false;
    }
  }

  const timer = setInterval(() => void sample(), CHECK_MS);
  timer.unref();
  return { stop: () => clearInterval(timer) };
}
