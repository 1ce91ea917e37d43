import { handIn, overdueAttempts } from '#infra/mongo/attempt/hand-in.ts';
import { isOutage } from '#infra/mongo/faults.ts';
import { abandonFanOut, lostFanOuts } from '#infra/mongo/notification/stage-fan-out.ts';
import { SECOND } from '#shared/kernel/time.ts';
import type { Actor, Outcome, Run, WorkerDeps } from '#workers/actor.ts';
import { settleFanOut } from './settle-fan-out.ts';

const OVERDUE_ATTEMPTS = 'upkeep:overdue-attempts';
const LOST_FAN_OUTS = 'upkeep:lost-fan-outs';

/** Runs the standing sweeps for overdue attempts and lost fan-outs, and settles large fan-outs. */
export function upkeepActor(deps: WorkerDeps): Actor {
  return {
    name: 'upkeep',
    backoff: { baseMs: deps.config.worker.retryBaseDelayMs, capMs: 60_000 },
    standing: [
      { queue: 'upkeep', key: OVERDUE_ATTEMPTS, subject: 'attempts' },
      { queue: 'upkeep', key: LOST_FAN_OUTS, subject: 'fan-outs' },
    ],
    handlers: {
      upkeep: (run) =>
        run.command.key === LOST_FAN_OUTS ? sweepLostFanOuts(deps, run) : sweepOverdueAttempts(deps, run),
      'upkeep:fanouts': (run) => settleFanOut(deps, run),
    },
  };
}

const FAN_OUTS_PER_SWEEP = 20;
/** A front door that is about to publish in its last moment must find its own rows. */
const GRACE_MS = 15 * SECOND;

/** Deletes the staged rows of front doors that ended before they could publish them. No reader has seen one. */
async function sweepLostFanOuts(deps: WorkerDeps, { signal }: Run<'upkeep'>): Promise<Outcome<'upkeep'>> {
  for (const fanOutId of await lostFanOuts(deps.mongo, deps.now() - GRACE_MS, FAN_OUTS_PER_SWEEP)) {
    signal.throwIfAborted();
    const swept = await abandonFanOut(deps.mongo, fanOutId);
    if (swept.kind === 'abandoned') deps.log.info({ fanOutId }, 'rows of a lost fan-out were taken away');
  }
  return { kind: 'snooze', afterMs: deps.config.upkeep.intervalMs };
}

const ATTEMPTS_PER_CHUNK = 50;
const HAND_IN_BUDGET_MS = 5 * SECOND;

/** Submits attempts whose deadline and grace are over and that no student submitted. */
async function sweepOverdueAttempts(deps: WorkerDeps, { signal }: Run<'upkeep'>): Promise<Outcome<'upkeep'>> {
  const graceMs = deps.config.attempt.overdueGraceSeconds * SECOND;
  for await (const chunk of overdueAttempts(deps.mongo, deps.now() - graceMs, ATTEMPTS_PER_CHUNK)) {
    signal.throwIfAborted();
    const tried = await Promise.allSettled(chunk.map((attemptId) => handInOverdue(deps, attemptId, graceMs)));
    reportFailures(deps, chunk, tried);
  }
  return { kind: 'snooze', afterMs: deps.config.upkeep.intervalMs };
}

/**
 * One attempt that cannot be handed in must not keep those behind it in progress: it is told and passed, and met again
 * by the next sweep. @throws the outage, when MongoDB rather than an attempt is at fault: nothing of the chunk went through
 */
function reportFailures(
  deps: WorkerDeps,
  chunk: readonly string[],
  tried: readonly PromiseSettledResult<void>[],
): void {
  const failed = tried.flatMap((one, index) =>
    one.status === 'rejected' ? [{ attemptId: chunk[index], err: one.reason }] : [],
  );
  if (failed.length === chunk.length && failed.every(({ err }) => isOutage(err))) throw failed[0]?.err;
  for (const failure of failed) deps.log.error(failure, 'an overdue attempt could not be handed in');
}

/** Judged again inside the write, by MongoDB's clock: the student may have been quicker. */
async function handInOverdue(deps: WorkerDeps, attemptId: string, graceMs: number): Promise<void> {
  const submitted = await handIn(deps.mongo, {
    attemptId,
    source: 'TIMEOUT',
    overdueByMs: graceMs,
    maxAttempts: deps.config.worker.maxAttempts,
    now: deps.now(),
    budgetMs: HAND_IN_BUDGET_MS,
  });
  if (submitted.kind === 'submitted') deps.ring(submitted.command.queue, submitted.command._id);
}
