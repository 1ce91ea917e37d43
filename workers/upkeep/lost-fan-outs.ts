import { abandonFanOut, lostFanOuts } from '#infra/mongo/notification/stage-fan-out.ts';
import { SECOND } from '#shared/kernel/time.ts';
import type { Run } from '#workers/actor.ts';
import type { WorkerDeps } from '#workers/deps.ts';
import type { Outcome } from '#workers/outcome.ts';

const FAN_OUTS_PER_SWEEP = 20;
/** A front door that is about to publish in its last moment must find its own rows. */
const GRACE_MS = 15 * SECOND;

/** Takes away the staged rows of front doors that ended before they could publish them. Nobody has seen one. */
export async function sweepLostFanOuts(deps: WorkerDeps, { signal }: Pick<Run<never>, 'signal'>): Promise<Outcome> {
  for (const fanOutId of await lostFanOuts(deps.mongo, deps.now() - GRACE_MS, FAN_OUTS_PER_SWEEP)) {
    signal.throwIfAborted();
    if (await abandonFanOut(deps.mongo, fanOutId))
      deps.log.info({ fanOutId }, 'rows of a lost fan-out were taken away');
  }
  return { kind: 'snooze', afterMs: deps.config.upkeep.intervalMs };
}
