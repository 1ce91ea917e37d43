import type { Log } from '../shared/infra/log/log.ts';
import type { Mongo } from '../shared/infra/mongo/connect.ts';
import { schemaFaults } from '../shared/infra/mongo/schema/migrate.ts';
import type { ServerClock } from '../shared/infra/mongo/server-clock.ts';

const RETRY_MS = 1_000;

/**
 * Waits until the schema is the one this code needs and MongoDB's clock has been measured: a worker may be started
 * before MongoDB is there, or before the release has run. Each new reason is said once.
 */
export async function untilUsable(mongo: Mongo, clock: ServerClock, log: Log): Promise<void> {
  for (let said = ''; ; ) {
    try {
      const faults = await schemaFaults(mongo);
      if (faults.length > 0) throw new Error(faults.join('; '));
      return await clock.measure();
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (reason !== said) log.warn({ reason }, 'not usable yet');
      said = reason;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
}
