import { setTimeout as delay } from 'node:timers/promises';
import type { Log } from '#infra/log/log.ts';
import { schemaFaults } from '#infra/mongo/schema/migrate.ts';
import type { Mongo } from './connect.ts';
import type { ServerClock } from './server-clock.ts';

interface UsableDeps {
  /** Resolves if the database is usable, rejects with the reason if it is not. */
  check(): Promise<void>;
  log: Log;
  /** Ends the wait when the process must stop. */
  stop: AbortSignal;
  /** Wait between two checks, in milliseconds. Default 1,000. */
  retryMs?: number;
}

/**
 * Repeats the check until the database is usable. A process may start before MongoDB, or before the release that creates the
 * schema. Returns true once the database is usable, false if `stop` came first. Logs a reason only when it changes.
 */
export async function untilUsable({ check, log, stop, retryMs = 1_000 }: UsableDeps): Promise<boolean> {
  for (let logged = ''; !stop.aborted; ) {
    try {
      await check();
      return !stop.aborted;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (reason !== logged && !stop.aborted) log.warn({ reason }, 'waiting for MongoDB or schema migration');
      logged = reason;
    }
    // A stop rejects this wait; the condition of the loop handles it.
    await delay(retryMs, undefined, { signal: stop }).catch(() => undefined);
  }
  return false;
}

/**
 * Checks what every process requires of MongoDB: the schema of this code, and a measurement of MongoDB's clock, because no deadline
 * may depend on our own clock.
 *
 * @throws Error that states what is missing
 */
export async function checkUsable(mongo: Mongo, clock: ServerClock): Promise<void> {
  // A client whose first dial failed never dials again by itself; each command would fail with "topology is closed".
  await mongo.client.connect();
  const faults = await schemaFaults(mongo);
  if (faults.length > 0) throw new Error(faults.join('; '));
  await clock.measure();
}
