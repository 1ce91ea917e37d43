import { markSubmitted, overdueAttempts } from '#infra/mongo/attempt/submit.ts';
import { closeOverdueSettlement, overdueSettlements } from '#infra/mongo/classifier/unpaid-generations.ts';
import { isOutage } from '#infra/mongo/faults.ts';
import { abandonFanOut, orphanedFanOuts } from '#infra/mongo/notification/stage-fan-out.ts';
import { logActs } from '#infra/mongo/operator-audit.ts';
import { eraseAgain, pendingErasures } from '#infra/mongo/person/erase.ts';
import type { Sitting } from '#shared/attempt/attempt.ts';
import { SECOND } from '#shared/kernel/time.ts';
import type { Outcome, Run, WorkerDeps } from '#workers/actor.ts';

const ATTEMPTS_PER_CHUNK = 50;
const SUBMIT_BUDGET_MS = 5 * SECOND;

/** Submits attempts that are still in progress after their deadline plus the grace period. */
export async function sweepOverdueAttempts(deps: WorkerDeps, { signal }: Run<'upkeep'>): Promise<Outcome<'upkeep'>> {
  // The command may exist from a time when the sweep was enabled. Snooze it, so that it runs once the sweep is enabled again.
  if (!deps.config.attempt.overdueSweepEnabled) return { kind: 'snooze', afterMs: deps.config.upkeep.intervalMs };
  const graceMs = deps.config.attempt.overdueGraceSeconds * SECOND;
  for await (const chunk of overdueAttempts(deps.mongo, deps.now() - graceMs, ATTEMPTS_PER_CHUNK)) {
    signal.throwIfAborted();
    const results = await Promise.allSettled(chunk.map((attempt) => submitOverdue(deps, attempt, graceMs)));
    reportFailures(deps, chunk, results);
  }
  return { kind: 'snooze', afterMs: deps.config.upkeep.intervalMs };
}

/**
 * Logs each attempt that could not be submitted and goes on, so that it does not block the attempts after it; the next sweep retries
 * it. @throws the outage if every submit of the chunk failed with one, because MongoDB is then at fault and no attempt
 */
function reportFailures(
  deps: WorkerDeps,
  chunk: readonly Sitting[],
  results: readonly PromiseSettledResult<void>[],
): void {
  const failed = results.flatMap((one, index) =>
    one.status === 'rejected' ? [{ attemptId: chunk[index]?._id, err: one.reason }] : [],
  );
  if (failed.length === chunk.length && failed.every(({ err }) => isOutage(err))) throw failed[0]?.err;
  for (const failure of failed) deps.log.error(failure, 'submitting an overdue attempt failed; the next sweep retries');
}

/** Submits one overdue attempt. The write checks the deadline again by MongoDB's clock: the student may have submitted first. */
async function submitOverdue(deps: WorkerDeps, attempt: Sitting, graceMs: number): Promise<void> {
  const submitted = await markSubmitted(deps.mongo, {
    attempt,
    source: 'TIMEOUT',
    overdueByMs: graceMs,
    maxAttempts: deps.config.worker.maxAttempts,
    now: deps.now(),
    isWanted: await deps.wanted.wants('attempt.submitted'),
    budgetMs: SUBMIT_BUDGET_MS,
  });
  if (submitted.kind === 'submitted') deps.ring(submitted.command);
}

const FAN_OUTS_PER_SWEEP = 20;
/** Extra time before staged rows are deleted: a front door that publishes at the last moment must find its rows. */
const GRACE_MS = 15 * SECOND;

/** Deletes the staged rows of front doors that ended before they could publish them. No reader has seen one. */
export async function sweepOrphanedFanOuts(deps: WorkerDeps, { signal }: Run<'upkeep'>): Promise<Outcome<'upkeep'>> {
  for (const fanOutId of await orphanedFanOuts(deps.mongo, deps.now() - GRACE_MS, FAN_OUTS_PER_SWEEP)) {
    signal.throwIfAborted();
    const swept = await abandonFanOut(deps.mongo, fanOutId);
    if (swept.kind === 'abandoned') deps.log.info({ fanOutId }, 'deleted rows of an abandoned fan-out');
  }
  return { kind: 'snooze', afterMs: deps.config.upkeep.intervalMs };
}

/** More than remain in use at once, so that settlements in use never keep the sweep from the others. */
const SETTLEMENTS_PER_SWEEP = 200;

/**
 * Makes settlements dead letters whose generation was not paid for within its day. A settlement worker does so itself. This sweep
 * ends those that have no worker, so that `examhall dead list` shows every answer that was never paid for.
 */
export async function sweepUnpaidGenerations(deps: WorkerDeps, { signal }: Run<'upkeep'>): Promise<Outcome<'upkeep'>> {
  const { mongo, log } = deps;
  for (const overdue of await overdueSettlements(mongo, deps.now(), SETTLEMENTS_PER_SWEEP)) {
    signal.throwIfAborted();
    const about = { commandId: overdue.command._id, queue: 'settlement', subject: overdue.previewId };
    try {
      const end = await closeOverdueSettlement(mongo, overdue);
      if (end === 'dead') log.error(about, 'command is dead: see `examhall dead`');
    } catch (err) {
      if (isOutage(err)) throw err;
      log.error({ ...about, err }, 'ending an overdue settlement failed; the next sweep retries');
    }
  }
  return { kind: 'snooze', afterMs: deps.config.upkeep.intervalMs };
}

/** The recurring command of the sweep below. */
export const ERASURES_SWEEP = { queue: 'upkeep', key: 'upkeep:erasures', subject: 'erasures' } as const;

const ERASURES_PER_SWEEP = 20;

/** Runs each erasure again whose second pass is due, and forgets the id. One that fails or waits is postponed, so that it blocks no other. */
export async function sweepErasures(deps: WorkerDeps, { signal }: Run<'upkeep'>): Promise<Outcome<'upkeep'>> {
  const { mongo, log, config } = deps;
  for (const pending of await pendingErasures(mongo, ERASURES_PER_SWEEP)) {
    signal.throwIfAborted();
    const about = { tombstone: pending._id };
    const act = { now: deps.now(), maxAttempts: config.worker.maxAttempts, committed: logActs(log) };
    try {
      const pass = await eraseAgain(mongo, pending, act);
      if (pass.kind === 'erased') log.info({ ...about, found: pass.found }, 'second pass of an erasure ended');
      if (pass.kind === 'waiting')
        log.info({ ...about, rows: Object.fromEntries(pass.rows) }, 'second pass of an erasure waits');
    } catch (err) {
      if (isOutage(err)) throw err;
      log.error({ ...about, err }, 'second pass of an erasure failed; a later sweep retries');
    }
  }
  return { kind: 'snooze', afterMs: config.upkeep.intervalMs };
}
