import { handIn, overdueAttempts } from '#infra/mongo/attempt/hand-in.ts';
import { isOutage } from '#infra/mongo/faults.ts';
import { SECOND } from '#shared/kernel/time.ts';
import type { Run } from '#workers/actor.ts';
import type { WorkerDeps } from '#workers/deps.ts';
import type { Outcome } from '#workers/outcome.ts';

const ATTEMPTS_PER_CHUNK = 50;
const HAND_IN_BUDGET_MS = 5 * SECOND;

/** Hands in what nobody handed in. */
export async function sweepOverdueAttempts(deps: WorkerDeps, { signal }: Pick<Run<never>, 'signal'>): Promise<Outcome> {
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
  const command = await handIn(deps.mongo, {
    attemptId,
    source: 'TIMEOUT',
    overdueByMs: graceMs,
    maxAttempts: deps.config.worker.maxAttempts,
    now: deps.now(),
    budgetMs: HAND_IN_BUDGET_MS,
  });
  if (command !== null) deps.ring(command.queue, command._id);
}
