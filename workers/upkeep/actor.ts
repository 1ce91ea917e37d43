import { handIn } from '../../shared/infra/mongo/attempt/hand-in.ts';
import { overdueAttempts } from '../../shared/infra/mongo/attempt/overdue-attempts.ts';
import { SECOND } from '../../shared/kernel/clock.ts';
import type { Actor, Run } from '../actor.ts';
import type { WorkerDeps } from '../deps.ts';
import type { Outcome } from '../outcome.ts';

const CHUNK = 50;
const HAND_IN_BUDGET_MS = 5 * SECOND;

/** Keeps house on a standing command: hands in what nobody handed in. */
export function upkeepActor(deps: WorkerDeps): Actor {
  return {
    name: 'upkeep',
    queues: ['upkeep'],
    backoff: { baseMs: deps.config.worker.retryBaseDelayMs, capMs: 60_000 },
    standing: [{ queue: 'upkeep', key: 'upkeep:overdue-attempts', subject: 'attempts' }],
    run: (run) => sweep(deps, run),
  };
}

async function sweep(deps: WorkerDeps, run: Run<never>): Promise<Outcome> {
  const graceMs = deps.config.attempt.overdueGraceSeconds * SECOND;
  for (;;) {
    run.signal.throwIfAborted();
    const overdue = await overdueAttempts(deps.mongo, deps.now() - graceMs, CHUNK);
    const taken = await Promise.all(overdue.map((attemptId) => handInOverdue(deps, attemptId, graceMs)));
    // A chunk of which none could be handed in would come again and again: leave it to the next sweep.
    if (overdue.length < CHUNK || !taken.includes(true)) break;
  }
  return { kind: 'snooze', afterMs: deps.config.upkeep.intervalMs };
}

/** Judged again inside the write, by MongoDB's clock. False: the student was quicker, or it is not yet time. */
async function handInOverdue(deps: WorkerDeps, attemptId: string, graceMs: number): Promise<boolean> {
  const command = await handIn(deps.mongo, {
    attemptId,
    source: 'TIMEOUT',
    overdueByMs: graceMs,
    maxAttempts: deps.config.worker.maxAttempts,
    now: deps.now(),
    budgetMs: HAND_IN_BUDGET_MS,
  });
  if (command === null) return false;
  deps.ring(command.queue, command._id);
  return true;
}
