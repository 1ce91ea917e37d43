import type { ClientSession } from 'mongodb';
import { readIn } from '#infra/mongo/causal-read.ts';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import type { JobRound } from '#shared/classifier/commands.ts';
import { batchId, type JobBatch } from '#shared/classifier/job.ts';
import { joinedContexts } from '#shared/classifier/new-job.ts';
import type { JsonPart } from '#shared/kernel/json.ts';
import { aiJobBatches } from './collections.ts';

const IN_ORDER = { hint: 'of_job', sort: { index: 1 }, maxTimeMS: QUERY_LIMIT_MS } as const;

/** Returns the outcomes of a job's batches in their order, without the questions. */
export function batchOutcomes(mongo: Mongo, jobId: string): Promise<Pick<JobBatch, '_id' | 'index' | 'outcome'>[]> {
  return aiJobBatches(mongo)
    .find({ jobId }, { ...IN_ORDER, projection: { index: 1, outcome: 1 } })
    .toArray();
}

/** Returns the rounds and errors of a job's batches in their order, without the items. */
export function batchErrors(
  mongo: Mongo,
  jobId: string,
  session?: ClientSession,
): Promise<Pick<JobBatch, '_id' | 'index' | 'outcome'>[]> {
  return aiJobBatches(mongo)
    .find(
      { jobId },
      { ...readIn(session), ...IN_ORDER, projection: { index: 1, 'outcome.round': 1, 'outcome.errors': 1 } },
    )
    .toArray();
}

/** Returns the stored questions of a job as a list, in the order of its ids. Batches without stored questions are skipped. */
export async function batchQuestions(mongo: Mongo, jobId: string): Promise<JsonPart> {
  const batches = await aiJobBatches(mongo)
    .find({ jobId }, { ...IN_ORDER, projection: { contextText: 1 } })
    .toArray();
  return joinedContexts(batches.flatMap(({ contextText }) => contextText ?? []));
}

/** A batch that a round has not finished, without the texts of its questions. `vainRuns`: number of the round's runs in which its call failed. */
export interface OpenBatch extends Pick<JobBatch, 'index' | 'questionIds'> {
  vainRuns: number;
}

/**
 * Returns the batches that this round has not finished, in the order of a run's calls. Those that have failed least come first: otherwise a batch
 * that always fails would keep the others from being sent.
 */
export async function openBatches(
  mongo: Mongo,
  { jobId, round }: JobRound,
  session: ClientSession,
): Promise<OpenBatch[]> {
  const projection = { index: 1, questionIds: 1, 'outcome.round': 1, vain: 1 };
  const all = await aiJobBatches(mongo)
    .find({ jobId }, { ...readIn(session), ...IN_ORDER, projection })
    .toArray();
  const open = all.filter(({ outcome }) => outcome?.round !== round);
  return open
    .map(({ index, questionIds, vain }) => ({ index, questionIds, vainRuns: vain?.round === round ? vain.runs : 0 }))
    .sort((one, other) => one.vainRuns - other.vainRuns || one.index - other.index);
}

/** Returns these batches of a job with the texts of the questions, in the given order. Throws if one does not exist. */
export async function findBatches(mongo: Mongo, jobId: string, indexes: readonly number[]): Promise<JobBatch[]> {
  const ids = indexes.map((index) => batchId(jobId, index));
  const found = await aiJobBatches(mongo)
    .find({ _id: { $in: ids }, jobId }, { maxTimeMS: QUERY_LIMIT_MS })
    .toArray();
  const byId = new Map(found.map((batch) => [batch._id, batch]));
  return ids.map((id) => {
    const batch = byId.get(id);
    if (batch === undefined) throw new Error(`batch ${id} does not exist`);
    return batch;
  });
}

/** Returns the newest error of this round, or null. */
export async function lastError(
  mongo: Mongo,
  { jobId, round }: JobRound,
  session: ClientSession,
): Promise<{ code: string; message: string } | null> {
  const failed = (await batchErrors(mongo, jobId, session)).filter(({ outcome }) => outcome?.round === round);
  return failed.flatMap(({ outcome }) => outcome?.errors ?? []).at(-1) ?? null;
}
