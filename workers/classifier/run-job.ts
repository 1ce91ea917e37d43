import pLimit from 'p-limit';
import type { JobRow } from '#infra/mongo/classifier/collections.ts';
import { findBatches, lastError, type OpenBatch, openBatches } from '#infra/mongo/classifier/job-batches.ts';
import {
  beginRound,
  endRound,
  type FinishedBatch,
  RoundOver,
  storeOutcomes,
  suspendRound,
} from '#infra/mongo/classifier/job-round.ts';
import { findJob } from '#infra/mongo/classifier/jobs.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { Stale } from '#infra/mongo/guarded-update.ts';
import { type CommandOf, newCommand } from '#infra/mongo/mailbox/commands.ts';
import { postCommandsIn } from '#infra/mongo/mailbox/mailbox.ts';
import { QuestionBankFailed } from '#infra/neighbours/question-bank.ts';
import { completedOrder, type JobRound } from '#shared/classifier/commands.ts';
import { isOpen, type JobStatus, jobEndOf } from '#shared/classifier/job.ts';
import { CONTEXT_FAILED } from '#shared/classifier/new-job.ts';
import { type Models, TaskCancelled } from '#shared/classifier/tasks/envelope.ts';
import { ProviderFailure } from '#shared/classifier/tasks/task.ts';
import { EVENT_ATTEMPTS } from '#shared/kernel/command.ts';
import type { Effects, Outcome, WorkerDeps } from '#workers/actor.ts';
import { openGroupWriter, readAhead } from './batch-io.ts';
import { allFailed, classifyBatch } from './classify-batch.ts';
import { hasContext, type JobRun, loadContext } from './load-context.ts';

interface JobRunDeps extends Pick<WorkerDeps, 'mongo' | 'now' | 'config' | 'log' | 'publishJobChange' | 'wanted'> {
  models: Models;
}

/** Runs one round of a job from where the last run was cut off. Ends the job or makes its command due again. */
export async function runJob(deps: JobRunDeps, run: JobRun): Promise<Outcome<'classifier'>> {
  try {
    return await classify(deps, run);
  } catch (error) {
    // A cancellation is announced once it is stored.
    const isOver =
      error instanceof RoundOver || (error instanceof TaskCancelled && (await roundIsOver(deps.mongo, run.at)));
    if (!isOver) throw error;
    // The job was cancelled or restarted. That request has already written the job's state.
    return { kind: 'done', result: { roundIsOver: true } };
  }
}

async function classify(deps: JobRunDeps, run: JobRun): Promise<Outcome<'classifier'>> {
  const { mongo } = deps;
  const { at } = run;
  await run.checkpoint({ phase: 'begin', last: -1 }, (session) => beginRound(mongo, at, session));
  deps.publishJobChange(at.jobId);
  const job = await ownJob(deps, run);
  if (!hasContext(job, deps.config)) {
    try {
      await loadContext(deps, run, job);
    } catch (error) {
      if (!(error instanceof QuestionBankFailed)) throw error;
      deps.log.warn({ err: error, jobId: job._id }, 'loading the questions of a job failed; job ended as FAILED');
      return doneOutcome(deps, at, job, { status: 'FAILED', error: CONTEXT_FAILED });
    }
  }
  const failures = await classifyAll(deps, run, await ownJob(deps, run));
  if (failures.length === 0) return finishRound(deps, run);
  const suspended = failures.filter(({ failure }) => failure.nature === 'open');
  const failed = failures.filter(({ failure }) => failure.nature !== 'open');
  const [first] = failed;
  if (first !== undefined && !isLastRun(run)) return retryOutcome(deps, at, first.failure, { failed, failures });
  await failBatches(deps, run, failed);
  // No provider was called for the batches that are still open, so no attempt is spent.
  return suspended.length === 0 ? finishRound(deps, run) : snoozeOutcome(deps, at, suspended);
}

function isLastRun({ command }: JobRun): boolean {
  return command.attempts >= command.maxAttempts;
}

/** A batch for which a run has no answer, because of a failure that may pass. */
interface FailedBatch {
  batch: OpenBatch;
  failure: ProviderFailure;
}

/** Returns the job. Throws RoundOver if it is gone or in another round. */
async function ownJob({ mongo }: JobRunDeps, { at, session }: JobRun): Promise<JobRow> {
  const job = await findJob(mongo, at.jobId, session);
  if (job === null || job.round !== at.round) throw new RoundOver(at);
  return job;
}

/**
 * Classifies every open batch and stores the outcomes. A slot calls the provider again as soon as its batch is answered; the outcome is
 * stored during that call. After a failure that may pass, no further batch begins, except in the last run: that one calls once for each,
 * until the provider's circuit is open. Batches that are with the provider are awaited, because their answers are paid for. Returns the
 * failures that may pass.
 */
async function classifyAll(deps: JobRunDeps, run: JobRun, job: JobRow): Promise<FailedBatch[]> {
  const { mongo } = deps;
  const { at } = run;
  const open = await openBatches(mongo, at, run.session);
  const indexes = open.map(({ index }) => index);
  // From here on, reads run beside checkpoints and may not use the session. They need not: the reads before have waited for the shards
  // of the job and of its batches.
  const watch = watchRound(mongo, at);
  const broken = new AbortController();
  const signal = AbortSignal.any([run.signal, watch.signal, broken.signal]);
  const failures: FailedBatch[] = [];
  const { batchConcurrency } = deps.config.classifier;
  const batchAt = readAhead(indexes, batchConcurrency, (group) => findBatches(mongo, job._id, group));
  const outcomes = openGroupWriter((finishedOnes: readonly FinishedBatch[]) => storeGroup(deps, run, finishedOnes), {
    // While more outcomes than slots are not stored, no call begins: a killed worker repeats two batches a slot at most.
    limit: batchConcurrency,
    failed: (error) => broken.abort(error),
  });

  async function classifyOne(wanted: OpenBatch, position: number): Promise<void> {
    const isSuspended = failures.some(({ failure }) => failure.nature === 'open');
    if (isSuspended || (failures.length > 0 && !isLastRun(run))) return;
    signal.throwIfAborted();
    const batch = await batchAt(position);
    try {
      const outcome = await classifyBatch(deps.models, job, batch, signal);
      await outcomes.write({ index: batch.index, outcome });
    } catch (error) {
      if (!(error instanceof ProviderFailure)) throw error;
      failures.push({ batch: wanted, failure: error });
    }
  }

  const slots = pLimit(batchConcurrency);
  const runs = open.map((wanted, position) =>
    slots(() =>
      classifyOne(wanted, position).catch((error: unknown) => {
        // The run must stop. Abort the other calls before this slot is free, or the next batch would start.
        broken.abort(error);
        throw error;
      }),
    ),
  );
  await Promise.allSettled(runs);
  // An answer is paid for. Store it even if the run must stop.
  await outcomes.flush().catch(() => undefined);
  watch.stop();
  // Throw the error that stopped the run, not the errors of the calls that it aborted.
  signal.throwIfAborted();
  return failures;
}

const POLL_MS = 500;

/** Aborts with RoundOver soon after the job was cancelled or restarted, even if the announcement of that was lost. */
interface RoundWatch {
  signal: AbortSignal;
  stop(): void;
}

async function roundIsOver(mongo: Mongo, { jobId, round }: JobRound): Promise<boolean> {
  const job = await findJob(mongo, jobId);
  return job === null || job.round !== round || !isOpen(job.status);
}

function watchRound(mongo: Mongo, at: JobRound, everyMs = POLL_MS): RoundWatch {
  const over = new AbortController();
  let timer = setTimeout(poll, everyMs);
  let stopped = false;

  async function poll(): Promise<void> {
    // If this read fails, the next one will do. Every write of the run requires its round in any case.
    const isOver = await roundIsOver(mongo, at).catch(() => false);
    if (stopped) return;
    if (isOver) {
      over.abort(new RoundOver(at));
      return;
    }
    timer = setTimeout(poll, everyMs);
  }
  return {
    signal: over.signal,
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}

async function storeGroup(deps: JobRunDeps, run: JobRun, group: readonly FinishedBatch[]): Promise<void> {
  const { at } = run;
  const last = Math.max(...group.map(({ index }) => index));
  await run.checkpoint({ phase: 'batches', last }, (session) => storeOutcomes(deps.mongo, at, group, session));
  deps.publishJobChange(at.jobId);
}

/** Number of failed batches that one transaction ends with errors. */
const CHUNK = 50;

/** Ends batches with the errors of their failures, after the last run. */
async function failBatches(deps: JobRunDeps, run: JobRun, failures: readonly FailedBatch[]): Promise<void> {
  for (let from = 0; from < failures.length; from += CHUNK) {
    run.signal.throwIfAborted();
    const group = failures.slice(from, from + CHUNK).map(({ batch, failure }) => allFailed(batch, failure));
    await storeGroup(deps, run, group);
  }
}

async function finishRound(deps: JobRunDeps, run: JobRun): Promise<Outcome<'classifier'>> {
  const { at, session } = run;
  const job = await ownJob(deps, run);
  const { counts } = job;
  const error = counts.succeeded > 0 ? null : await lastError(deps.mongo, at, session);
  return doneOutcome(deps, at, job, jobEndOf(counts, error));
}

async function doneOutcome(
  deps: JobRunDeps,
  at: JobRound,
  job: JobRow,
  end: ReturnType<typeof jobEndOf>,
): Promise<Outcome<'classifier'>> {
  const events = await jobEvents(deps, at, job, end.status);
  return {
    kind: 'done',
    result: { status: end.status },
    effects: inRound(async (session) => {
      await endRound(deps.mongo, at, end, session);
      await postCommandsIn(deps.mongo, session, events);
    }),
    after: () => deps.publishJobChange(at.jobId),
  };
}

/** Returns the command that publishes the end of a job, if a subscription wants it. */
export async function jobEvents(
  { now, wanted }: Pick<WorkerDeps, 'now' | 'wanted'>,
  at: JobRound,
  job: Pick<JobRow, 'organizationId' | 'counts'>,
  status: JobStatus,
): Promise<CommandOf<'upkeep:publish'>[]> {
  if (!(await wanted.wants('job.completed'))) return [];
  return [newCommand({ ...completedOrder(job, at, status), maxAttempts: EVENT_ATTEMPTS, now: now() })];
}

function snoozeOutcome(deps: JobRunDeps, at: JobRound, failures: readonly FailedBatch[]): Outcome<'classifier'> {
  const afterMs = longestWait(failures) ?? deps.config.classifier.circuit.cooldownMs;
  const [first] = failures;
  const effects = inRound((session) => suspendRound(deps.mongo, at, [], session));
  return { kind: 'snooze', afterMs, effects, ...(first === undefined ? {} : { error: first.failure }) };
}

function retryOutcome(
  deps: JobRunDeps,
  at: JobRound,
  error: ProviderFailure,
  { failed, failures }: { failed: readonly FailedBatch[]; failures: readonly FailedBatch[] },
): Outcome<'classifier'> {
  const afterMs = longestWait(failures);
  const batches = failed.map(({ batch }) => batch);
  const effects = inRound((session) => suspendRound(deps.mongo, at, batches, session));
  return { kind: 'retry', error, effects, ...(afterMs === null ? {} : { afterMs }) };
}

function longestWait(failures: readonly FailedBatch[]): number | null {
  const waits = failures.map(({ failure }) => failure.retryAfterMs).filter((ms) => ms !== null);
  return waits.length === 0 ? null : Math.max(...waits);
}

/** Turns RoundOver inside the commit into Stale, so that the command is decided again. That run reads the job and ends. */
function inRound(effects: Effects): Effects {
  return async (session) => {
    try {
      await effects(session);
    } catch (error) {
      throw error instanceof RoundOver ? new Stale('the job') : error;
    }
  };
}
