import { markSubmitted, overdueAttempts } from '#infra/mongo/attempt/submit.ts';
import { isOutage } from '#infra/mongo/faults.ts';
import { queueDeliveries } from '#infra/mongo/notification/deliveries.ts';
import {
  abandonFanOut,
  deleteFanOut,
  findFanOut,
  moveToInbox,
  orphanedFanOuts,
  rowsOfFanOut,
} from '#infra/mongo/notification/stage-fan-out.ts';
import { OVERDUE_ATTEMPTS_SWEEP } from '#shared/attempt/commands.ts';
import { SECOND } from '#shared/kernel/time.ts';
import { type FinishProgress, ORPHANED_FAN_OUTS_SWEEP } from '#shared/notification/commands.ts';
import { READER_GRACE_MS } from '#shared/notification/fan-out.ts';
import type { Actor, Outcome, Run, WorkerDeps } from '#workers/actor.ts';
import { isRetentionSet, RETENTION_SWEEP, sweepRetention } from './retention.ts';

/**
 * Runs the recurring sweeps for overdue attempts (unless disabled), orphaned fan-outs and data at the end of its retention (if one is
 * set), and finishes large fan-outs.
 */
export function upkeepActor(deps: WorkerDeps): Actor {
  const { overdueSweepEnabled } = deps.config.attempt;
  return {
    name: 'upkeep',
    backoff: { baseMs: deps.config.worker.retryBaseDelayMs, capMs: 60_000 },
    recurring: [
      ...(overdueSweepEnabled ? [OVERDUE_ATTEMPTS_SWEEP] : []),
      ORPHANED_FAN_OUTS_SWEEP,
      ...(isRetentionSet(deps) ? [RETENTION_SWEEP] : []),
    ],
    handlers: {
      upkeep: (run) => {
        if (run.command.key === ORPHANED_FAN_OUTS_SWEEP.key) return sweepOrphanedFanOuts(deps, run);
        if (run.command.key === RETENTION_SWEEP.key) return sweepRetention(deps, run);
        return sweepOverdueAttempts(deps, run);
      },
      'upkeep:fanouts': (run) => finishFanOut(deps, run),
    },
  };
}

const FAN_OUTS_PER_SWEEP = 20;
/** Extra time before staged rows are deleted: a front door that publishes at the last moment must find its rows. */
const GRACE_MS = 15 * SECOND;

/** Deletes the staged rows of front doors that ended before they could publish them. No reader has seen one. */
async function sweepOrphanedFanOuts(deps: WorkerDeps, { signal }: Run<'upkeep'>): Promise<Outcome<'upkeep'>> {
  for (const fanOutId of await orphanedFanOuts(deps.mongo, deps.now() - GRACE_MS, FAN_OUTS_PER_SWEEP)) {
    signal.throwIfAborted();
    const swept = await abandonFanOut(deps.mongo, fanOutId);
    if (swept.kind === 'abandoned') deps.log.info({ fanOutId }, 'deleted rows of an abandoned fan-out');
  }
  return { kind: 'snooze', afterMs: deps.config.upkeep.intervalMs };
}

const ATTEMPTS_PER_CHUNK = 50;
const SUBMIT_BUDGET_MS = 5 * SECOND;

/** Submits attempts that are still in progress after their deadline plus the grace period. */
async function sweepOverdueAttempts(deps: WorkerDeps, { signal }: Run<'upkeep'>): Promise<Outcome<'upkeep'>> {
  // The command may exist from a time when the sweep was enabled. Snooze it, so that it runs once the sweep is enabled again.
  if (!deps.config.attempt.overdueSweepEnabled) return { kind: 'snooze', afterMs: deps.config.upkeep.intervalMs };
  const graceMs = deps.config.attempt.overdueGraceSeconds * SECOND;
  for await (const chunk of overdueAttempts(deps.mongo, deps.now() - graceMs, ATTEMPTS_PER_CHUNK)) {
    signal.throwIfAborted();
    const results = await Promise.allSettled(chunk.map((attemptId) => submitOverdue(deps, attemptId, graceMs)));
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
  chunk: readonly string[],
  results: readonly PromiseSettledResult<void>[],
): void {
  const failed = results.flatMap((one, index) =>
    one.status === 'rejected' ? [{ attemptId: chunk[index], err: one.reason }] : [],
  );
  if (failed.length === chunk.length && failed.every(({ err }) => isOutage(err))) throw failed[0]?.err;
  for (const failure of failed) deps.log.error(failure, 'submitting an overdue attempt failed; the next sweep retries');
}

/** Submits one overdue attempt. The write checks the deadline again by MongoDB's clock: the student may have submitted first. */
async function submitOverdue(deps: WorkerDeps, attemptId: string, graceMs: number): Promise<void> {
  const submitted = await markSubmitted(deps.mongo, {
    attemptId,
    source: 'TIMEOUT',
    overdueByMs: graceMs,
    maxAttempts: deps.config.worker.maxAttempts,
    now: deps.now(),
    budgetMs: SUBMIT_BUDGET_MS,
  });
  if (submitted.kind === 'submitted') deps.ring(submitted.command.queue, submitted.command._id);
}

type FinishRun = Run<'upkeep:fanouts'>;

const START: FinishProgress = { phase: 'deliveries', after: -1 };

/**
 * Finishes a published fan-out: queues its deliveries, moves its rows to their inboxes, and deletes it once no reader can hold an
 * older list. Readers depend on the two waits (`shared/notification/fan-out.ts`).
 */
async function finishFanOut(deps: WorkerDeps, run: FinishRun): Promise<Outcome<'upkeep:fanouts'>> {
  const { fanOutId } = run.command.body;
  const fanOut = await findFanOut(deps.mongo, fanOutId);
  // An earlier run deleted the fan-out, but its end was not stored.
  if (fanOut === null) return { kind: 'done', result: { fanOutId } };
  if (fanOut.publishedAt === null) return { kind: 'dead', error: new Error(`fan-out ${fanOutId} is not published`) };

  let at = run.command.progress ?? START;
  if (at.phase === 'deliveries') at = await queueAll(deps, run, at.after);
  if (at.phase === 'rows') {
    const waitMs = fanOut.publishedAt.getTime() + READER_GRACE_MS - deps.now();
    if (waitMs > 0) return { kind: 'snooze', afterMs: waitMs };
    at = await moveAll(deps, run, at.after);
  }
  if (at.phase !== 'leave') throw new Error(`fan-out ${fanOutId} was left in phase ${at.phase}`);
  const waitMs = at.movedAt + READER_GRACE_MS - deps.now();
  if (waitMs > 0) return { kind: 'snooze', afterMs: waitMs };
  return {
    kind: 'done',
    result: { fanOutId, rows: fanOut.rows },
    effects: (session) => deleteFanOut(deps.mongo, fanOutId, session),
  };
}

/** Queues the deliveries in chunks. A chunk's jobs and the progress commit together, so no job is queued twice. */
async function queueAll(deps: WorkerDeps, run: FinishRun, from: number): Promise<FinishProgress> {
  const { channels, delivery } = deps.config.notification;
  let after = from;
  while (channels.size > 0) {
    run.signal.throwIfAborted();
    const rows = await rowsOfFanOut(deps.mongo, run.command.body.fanOutId, after);
    const last = rows.at(-1);
    if (last === undefined) break;
    after = last.ordinal;
    const wanted = rows.filter(({ place }) => place !== 'DELETED');
    await run.checkpoint({ phase: 'deliveries', after }, async (session) => {
      const options = { channels, maxAttempts: delivery.maxAttempts, now: deps.now(), session };
      await queueDeliveries(deps.mongo, wanted, options);
    });
  }
  return storeProgress(run, { phase: 'rows', after: -1 });
}

async function moveAll(deps: WorkerDeps, run: FinishRun, from: number): Promise<FinishProgress> {
  const { fanOutId } = run.command.body;
  for (let after = from; ; ) {
    run.signal.throwIfAborted();
    const rows = await rowsOfFanOut(deps.mongo, fanOutId, after);
    const last = rows.at(-1);
    if (last === undefined) break;
    await moveToInbox(deps.mongo, fanOutId, { after, last: last.ordinal });
    after = last.ordinal;
    await storeProgress(run, { phase: 'rows', after });
  }
  return storeProgress(run, { phase: 'leave', movedAt: deps.now() });
}

async function storeProgress(run: FinishRun, progress: FinishProgress): Promise<FinishProgress> {
  await run.checkpoint(progress, async () => undefined);
  return progress;
}
