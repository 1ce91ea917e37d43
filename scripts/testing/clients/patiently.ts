import { setTimeout as delay } from 'node:timers/promises';
import { until } from '#testing/until.ts';

const PACE_MS = 100;
const PATIENCE_MS = 90_000;

/** Like `until`, at a pace that leaves the database to the cluster under test, and with the patience that faults ask for. */
export function patiently(what: string, condition: () => Promise<boolean>): Promise<boolean> {
  return until(
    what,
    async () => {
      const seen = await condition();
      if (!seen) await delay(PACE_MS);
      return seen;
    },
    PATIENCE_MS,
  );
}
