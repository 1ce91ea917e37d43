import type { SettleBody } from '#infra/mongo/notification/stage-fan-out.ts';
import type { Actor, Run } from '#workers/actor.ts';
import type { WorkerDeps } from '#workers/deps.ts';
import type { Outcome } from '#workers/outcome.ts';
import { sweepLostFanOuts } from './lost-fan-outs.ts';
import { sweepOverdueAttempts } from './overdue-attempts.ts';
import { type SettleProgress, settleFanOut } from './settle-fan-out.ts';

const OVERDUE_ATTEMPTS = 'upkeep:overdue-attempts';
const LOST_FAN_OUTS = 'upkeep:lost-fan-outs';

/** Keeps house: standing commands that sweep up what nobody else ends, and the settling of large fan-outs. */
export function upkeepActor(deps: WorkerDeps): Actor<SettleBody, SettleProgress> {
  return {
    name: 'upkeep',
    queues: ['upkeep', 'upkeep:fanouts'],
    backoff: { baseMs: deps.config.worker.retryBaseDelayMs, capMs: 60_000 },
    standing: [
      { queue: 'upkeep', key: OVERDUE_ATTEMPTS, subject: 'attempts' },
      { queue: 'upkeep', key: LOST_FAN_OUTS, subject: 'fan-outs' },
    ],
    run: (run) => keep(deps, run),
  };
}

async function keep(deps: WorkerDeps, run: Run<SettleBody, SettleProgress>): Promise<Outcome> {
  const { queue, key } = run.command;
  if (queue === 'upkeep:fanouts') return settleFanOut(deps, run);
  return key === LOST_FAN_OUTS ? sweepLostFanOuts(deps, run) : sweepOverdueAttempts(deps, run);
}
