import { hostname } from 'node:os';
import type { Log } from '#infra/log/log.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { storeHeldLoop, storeSample } from '#infra/mongo/operations/samples.ts';
import { type Now, SECOND } from '#shared/kernel/time.ts';
import { BUSY_FROM_MS, type HeldLoop } from '#shared/operations/alarms.ts';

/** Interval at which a front door checks whether the sample of the minute exists: one late check costs no minute. */
const CHECK_MS = 20 * SECOND;

/**
 * Stores a sample of all queues each minute, for the charts of the console. All front doors of a cluster store one together. Each adds its own work
 * that held its event loop, for the alarm. A failed one is a gap and no more: other parts of the process report that MongoDB is unavailable.
 */
export function startSampling(deps: {
  mongo: Mongo;
  now: Now;
  log: Pick<Log, 'debug'>;
  usable: () => boolean;
  heldLoop: () => HeldLoop | null;
}): { stop(): void } {
  const { mongo, now, log, usable, heldLoop } = deps;
  let isRunning = false;
  let stored: HeldLoop | null = null;

  async function sample(): Promise<void> {
    if (isRunning || !usable()) return;
    isRunning = true;
    try {
      const at = now();
      await storeSample(mongo, at);
      const held = heldLoop();
      if (held === null || held.heldMs < BUSY_FROM_MS || held === stored) return;
      await storeHeldLoop(mongo, at, { process: `web@${hostname()}:${process.pid}`, ...held });
      stored = held;
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
