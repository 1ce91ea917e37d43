import type { ClientSession } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { guardedUpdate, literal, Stale } from '#infra/mongo/guarded-update.ts';
import { findLive } from '#infra/mongo/mailbox/mailbox.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import { type JobRound, roundKey } from '#shared/classifier/commands.ts';
import {
  type BatchOutcome,
  batchId,
  itemsTextOf,
  type JobBatch,
  type JobContext,
  type JobEnd,
} from '#shared/classifier/job.ts';
import { SECOND } from '#shared/kernel/time.ts';
import { aiJobBatches, aiJobs, type JobRow } from './collections.ts';
import type { OpenBatch } from './job-batches.ts';

/**
 * Writes for a round of a job, made in the transaction of the command that runs the round. Each write requires that the job is
 * still in this round.
 */

/** Thrown if the job is no longer in this round: it was cancelled, ended or restarted. Nothing of the round may be written. */
export class RoundOver extends Error {
  constructor({ jobId, round }: JobRound) {
    super(`round ${round} of job ${jobId} is over`);
    this.name = 'RoundOver';
  }
}

/** A batch and its outcome. */
export interface FinishedBatch {
  index: number;
  outcome: BatchOutcome;
}

/** Sets the job to RUNNING. It is RUNNING already if the last run was interrupted. Throws RoundOver. */
export async function beginRound(mongo: Mongo, at: JobRound, session: ClientSession): Promise<void> {
  await change(mongo, at, { status: 'RUNNING', startedAt: { $ifNull: ['$startedAt', '$$NOW'] } }, session);
}

/**
 * Stores the outcomes of these batches and counts them. Only the transaction prevents double counting, because the command
 * records the step in it. Every batch of every job passes through here, so the write is simple and fast. Throws RoundOver.
 */
export async function storeOutcomes(
  mongo: Mongo,
  at: JobRound,
  finished: readonly FinishedBatch[],
  session: ClientSession,
): Promise<void> {
  const outcomes = finished.map(({ outcome }) => outcome);
  const counted = await aiJobs(mongo).updateOne(
    { _id: at.jobId, round: at.round, status: 'RUNNING' },
    {
      $inc: {
        'counts.batchesDone': finished.length,
        'counts.succeeded': sum(outcomes.map(({ items }) => items.length)),
        'counts.failed': sum(outcomes.map(({ errors }) => errors.length)),
        ...tokens(outcomes, 'inputTokens'),
        ...tokens(outcomes, 'outputTokens'),
        revision: 1,
      },
      $currentDate: { updatedAt: true },
    },
    { session, maxTimeMS: QUERY_LIMIT_MS },
  );
  if (counted.matchedCount !== 1) throw new RoundOver(at);
  const stored = new Map(
    finished.map(({ index, outcome }) => [
      index,
      { outcome: { round: at.round, itemsText: itemsTextOf(outcome), errors: outcome.errors } },
    ]),
  );
  await setInBatches(mongo, at, stored, session);
}

/** Stores the questions of these batches as the question bank has just returned them. Throws RoundOver. */
export async function storeContexts(
  mongo: Mongo,
  at: JobRound,
  contexts: ReadonlyMap<number, string>,
  session: ClientSession,
): Promise<void> {
  await change(mongo, at, {}, session);
  const stored = new Map([...contexts].map(([index, contextText]) => [index, { contextText }]));
  await setInBatches(mongo, at, stored, session);
}

/** Stores the state of the job's question texts. Throws RoundOver. */
export async function markContext(
  mongo: Mongo,
  at: JobRound,
  context: JobContext,
  session: ClientSession,
): Promise<void> {
  await change(mongo, at, { context }, session);
}

/** Sets the job back to PENDING until its command runs again. Notes the batches whose calls have failed in this run. Throws RoundOver. */
export async function suspendRound(
  mongo: Mongo,
  at: JobRound,
  failed: readonly OpenBatch[],
  session: ClientSession,
): Promise<void> {
  await change(mongo, at, { status: 'PENDING' }, session);
  const noted = failed.map(
    ({ index, vainRuns }) => [index, { vain: { round: at.round, runs: vainRuns + 1 } }] as const,
  );
  await setInBatches(mongo, at, new Map(noted), session);
}

/** Ends the job. From now on an equal job may be created. Throws RoundOver. */
export async function endRound(mongo: Mongo, at: JobRound, end: JobEnd, session?: ClientSession): Promise<void> {
  const ended = { status: end.status, error: literal(end.error), open: false, finishedAt: '$$NOW' };
  await change(mongo, at, ended, session);
}

/** A round whose command no worker will run again. */
export interface OrphanedRound {
  at: JobRound;
  /** Fence of the command that runs the round; null if that command does not exist. */
  fence: number | null;
}

/** Time limit (ms) of the transaction, which writes up to four hundred batches. */
const ORPHANED_ROUND_BUDGET_MS = 20 * SECOND;

/**
 * Stores outcomes for all open batches of a round and ends the job, all or nothing. Requires that the command of the round is
 * dead and still has the `fence` that it had when `open` was read. Otherwise a new run may have stored some of these outcomes.
 * `ended` writes in the same transaction. Throws RoundOver or Stale.
 */
export async function endOrphanedRound(
  mongo: Mongo,
  { at, fence }: OrphanedRound,
  open: readonly FinishedBatch[],
  jobEndOf: (succeeded: number) => JobEnd,
  ended: (job: JobRow, end: JobEnd, session: ClientSession) => Promise<void> = async () => undefined,
): Promise<void> {
  await inTransaction(mongo, ORPHANED_ROUND_BUDGET_MS, async (session) => {
    // Read the command first. A worker that runs it again after this read also writes the job, so one of the two commits fails.
    const command = await findLive(mongo, 'classifier', roundKey(at), session);
    if (command?.status === 'PENDING' || (command?.fence ?? null) !== fence)
      throw new Stale('the command of an outdated round');
    await beginRound(mongo, at, session);
    await storeOutcomes(mongo, at, open, session);
    const job = await aiJobs(mongo).findOne({ _id: at.jobId }, { session, maxTimeMS: QUERY_LIMIT_MS });
    const end = jobEndOf(job?.counts.succeeded ?? 0);
    await endRound(mongo, at, end, session);
    if (job !== null) await ended(job, end, session);
  });
}

/** Writes all batches with one command. In a transaction, single writes would cost one round trip each. */
async function setInBatches(
  mongo: Mongo,
  { jobId }: JobRound,
  changes: ReadonlyMap<number, Partial<JobBatch>>,
  session: ClientSession,
): Promise<void> {
  const writes = [...changes].map(([index, $set]) => ({
    updateOne: { filter: { _id: batchId(jobId, index), jobId }, update: { $set } },
  }));
  if (writes.length > 0) await aiJobBatches(mongo).bulkWrite(writes, { session, maxTimeMS: QUERY_LIMIT_MS });
}

async function change(
  mongo: Mongo,
  at: JobRound,
  changes: Readonly<Record<string, unknown>>,
  session: ClientSession | undefined,
): Promise<void> {
  const isInRound = [{ $eq: ['$round', at.round] }, { $in: ['$status', ['PENDING', 'RUNNING']] }];
  const { pipeline } = guardedUpdate(isInRound, {
    ...changes,
    revision: { $add: ['$revision', 1] },
    updatedAt: '$$NOW',
  });
  const options = { maxTimeMS: QUERY_LIMIT_MS, ...(session === undefined ? {} : { session }) };
  // Every accepted write changes the stamp, so a write that modified nothing was refused.
  const written = await aiJobs(mongo).updateOne({ _id: at.jobId }, pipeline, options);
  if (written.modifiedCount !== 1) throw new RoundOver(at);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, n) => total + n, 0);
}

/** Returns the increment of a token count, or nothing if no provider reported one: an unknown count is not 0. */
function tokens(outcomes: readonly BatchOutcome[], name: 'inputTokens' | 'outputTokens'): Record<string, number> {
  const given = outcomes.map(({ usage }) => usage?.[name] ?? null).filter((n) => n !== null);
  return given.length === 0 ? {} : { [`usage.${name}`]: sum(given) };
}
