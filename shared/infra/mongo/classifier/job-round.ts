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
import { aiJobBatches, aiJobs } from './collections.ts';

/**
 * What is written for a round of a job, all of it in the transaction of the command that runs that round, and each write demands that
 * the job still is in it.
 */

/** The job is not in this round any more: cancelled, ended, or started over. Nothing of the round may be written. */
export class RoundOver extends Error {
  constructor({ jobId, round }: JobRound) {
    super(`round ${round} of job ${jobId} is over`);
    this.name = 'RoundOver';
  }
}

/** What one batch came to. */
export interface FinishedBatch {
  index: number;
  outcome: BatchOutcome;
}

/** PENDING, or RUNNING where the last run was cut off, becomes RUNNING. Throws RoundOver. */
export async function beginRound(mongo: Mongo, at: JobRound, session: ClientSession): Promise<void> {
  await change(mongo, at, { status: 'RUNNING', startedAt: { $ifNull: ['$startedAt', '$$NOW'] } }, session);
}

/**
 * Stores what these batches came to, and counts it. Nothing guards against twice but the transaction itself, in which the command notes
 * the step. Every batch of every job comes by here, so it is plain and quick. Throws RoundOver.
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

/** The questions of these batches, as the bank gives them now. Throws RoundOver. */
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

export async function markContext(
  mongo: Mongo,
  at: JobRound,
  context: JobContext,
  session: ClientSession,
): Promise<void> {
  await change(mongo, at, { context }, session);
}

/** Back to PENDING, until its command runs again. Throws RoundOver. */
export async function restRound(mongo: Mongo, at: JobRound, session: ClientSession): Promise<void> {
  await change(mongo, at, { status: 'PENDING' }, session);
}

/** Ends the job; an equal one may be made from now on. Throws RoundOver. */
export async function endRound(mongo: Mongo, at: JobRound, end: JobEnd, session?: ClientSession): Promise<void> {
  const ended = { status: end.status, error: literal(end.error), open: false, finishedAt: '$$NOW' };
  await change(mongo, at, ended, session);
}

/** A round that nobody runs any more. */
export interface LostRound {
  at: JobRound;
  /** Of its command; null: there is none. */
  fence: number | null;
}

/** Four hundred batches at the most, one write each (ms). */
const LOST_ROUND_MS = 20 * SECOND;

/**
 * Stores outcomes for all that is open of a round and ends it, all or nothing; only for a round whose command is dead, and by the fence
 * that it had when `open` was read: one that was run again may have brought some of that meanwhile. Throws RoundOver, Stale.
 */
export async function endLostRound(
  mongo: Mongo,
  { at, fence }: LostRound,
  open: readonly FinishedBatch[],
  endOf: (succeeded: number) => JobEnd,
): Promise<void> {
  await inTransaction(mongo, LOST_ROUND_MS, async (session) => {
    // Read first: who runs it again after this writes the job too, and one of the two commits is refused.
    const command = await findLive(mongo, 'classifier', roundKey(at), session);
    if (command?.status === 'PENDING' || (command?.fence ?? null) !== fence)
      throw new Stale('the command of a lost round');
    await beginRound(mongo, at, session);
    await storeOutcomes(mongo, at, open, session);
    const job = await aiJobs(mongo).findOne({ _id: at.jobId }, { session, maxTimeMS: QUERY_LIMIT_MS });
    await endRound(mongo, at, endOf(job?.counts.succeeded ?? 0), session);
  });
}

/** One command for all of them: within a transaction one after the other would be a round trip each. */
async function setInBatches(
  mongo: Mongo,
  at: JobRound,
  changes: ReadonlyMap<number, Partial<JobBatch>>,
  session: ClientSession,
): Promise<void> {
  const writes = [...changes].map(([index, $set]) => ({
    updateOne: { filter: { _id: batchId(at.jobId, index) }, update: { $set } },
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
  // A stamp is new at each write: one that changed nothing was refused.
  const written = await aiJobs(mongo).updateOne({ _id: at.jobId }, pipeline, options);
  if (written.modifiedCount !== 1) throw new RoundOver(at);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, n) => total + n, 0);
}

/** Nothing where no provider has counted: what is not there is not 0. */
function tokens(outcomes: readonly BatchOutcome[], name: 'inputTokens' | 'outputTokens'): Record<string, number> {
  const given = outcomes.map(({ usage }) => usage?.[name] ?? null).filter((n) => n !== null);
  return given.length === 0 ? {} : { [`usage.${name}`]: sum(given) };
}
