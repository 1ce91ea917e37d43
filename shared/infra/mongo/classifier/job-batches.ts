import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { batchId, type JobBatch } from '#shared/classifier/job.ts';
import { aiJobBatches } from './collections.ts';

const IN_ORDER = { hint: 'of_job', sort: { index: 1 }, maxTimeMS: QUERY_LIMIT_MS } as const;

/** What came of the batches of a job, in their order, without the questions themselves. */
export function batchOutcomes(mongo: Mongo, jobId: string): Promise<Pick<JobBatch, '_id' | 'index' | 'outcome'>[]> {
  return aiJobBatches(mongo)
    .find({ jobId }, { ...IN_ORDER, projection: { index: 1, outcome: 1 } })
    .toArray();
}

/** Only the errors in them. */
export function batchErrors(mongo: Mongo, jobId: string): Promise<Pick<JobBatch, '_id' | 'index' | 'outcome'>[]> {
  return aiJobBatches(mongo)
    .find({ jobId }, { ...IN_ORDER, projection: { index: 1, 'outcome.round': 1, 'outcome.errors': 1 } })
    .toArray();
}

/** The batches that this round has not finished, in their order, without the questions' texts. */
export async function openBatches(
  mongo: Mongo,
  jobId: string,
  round: number,
): Promise<Pick<JobBatch, 'index' | 'questionIds'>[]> {
  const all = await aiJobBatches(mongo)
    .find({ jobId }, { ...IN_ORDER, projection: { index: 1, questionIds: 1, 'outcome.round': 1 } })
    .toArray();
  return all.filter(({ outcome }) => outcome?.round !== round);
}

/** These batches of a job with the questions' texts, in the given order. */
export async function findBatches(mongo: Mongo, jobId: string, indexes: readonly number[]): Promise<JobBatch[]> {
  const ids = indexes.map((index) => batchId(jobId, index));
  const found = await aiJobBatches(mongo)
    .find({ _id: { $in: ids } }, { maxTimeMS: QUERY_LIMIT_MS })
    .toArray();
  const byId = new Map(found.map((batch) => [batch._id, batch]));
  return ids.map((id) => {
    const batch = byId.get(id);
    if (batch === undefined) throw new Error(`batch ${id} is not there`);
    return batch;
  });
}

/** The newest error of this round, where there is one. */
export async function lastError(
  mongo: Mongo,
  jobId: string,
  round: number,
): Promise<{ code: string; message: string } | null> {
  const failed = (await batchErrors(mongo, jobId)).filter(({ outcome }) => outcome?.round === round);
  return failed.flatMap(({ outcome }) => outcome?.errors ?? []).at(-1) ?? null;
}
