import { setTimeout as delay } from 'node:timers/promises';
import type { Log } from '#infra/log/log.ts';
import { schemaFaults } from '#infra/mongo/schema/migrate.ts';
import type { Mongo } from './connect.ts';
import type { ServerClock } from './server-clock.ts';

interface UsableDeps {
  /** One try: resolves when the database is fit to work with, rejects with the reason why it is not. */
  check(): Promise<void>;
  log: Log;
  /** Ends the wait: the process is to stop. */
  stop: AbortSignal;
  /** Default 1 s. */
  retryMs?: number;
}

/**
 * Tries until the database is fit to work with, then never again: a process may well be started before MongoDB, or
 * before the release that brings the schema. True when it is; false when `stop` came first. Each new reason is said
 * once, not once a second.
 */
export async function untilUsable({ check, log, stop, retryMs = 1_000 }: UsableDeps): Promise<boolean> {
  for (let said = ''; !stop.aborted; ) {
    try {
      await check();
      return !stop.aborted;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (reason !== said && !stop.aborted) log.warn({ reason }, 'not usable yet');
      said = reason;
    }
    // Woken by the stop: what it means is told by the loop's own condition.
    await delay(retryMs, undefined, { signal: stop }).catch(() => undefined);
  }
  return false;
}

/**
 * What every process needs of MongoDB: the schema of this code, and MongoDB's clock, since no deadline may be judged by
 * our own. @throws Error that says what is missing
 */
export async function checkUsable(mongo: Mongo, clock: ServerClock): Promise<void> {
  // A client whose first dial failed never dials again of itself: each command would end with "topology is closed".
  await mongo.client.connect();
  const faults = await schemaFaults(mongo);
  if (faults.length > 0) throw new Error(faults.join('; '));
  await clock.measure();
}
