import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import type { Generation } from '#shared/classifier/generation.ts';
import { generations } from './collections.ts';

/** The generation that a request of this key meets; null = there was none. */
export async function newestGeneration(mongo: Mongo, key: string): Promise<Generation | null> {
  return generations(mongo).findOne({ key }, { sort: { epoch: -1 }, maxTimeMS: QUERY_LIMIT_MS });
}

export async function findGeneration(mongo: Mongo, previewId: string): Promise<Generation | null> {
  return generations(mongo).findOne({ _id: previewId }, { maxTimeMS: QUERY_LIMIT_MS });
}
