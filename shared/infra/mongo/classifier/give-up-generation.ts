import type { ClientSession } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { guardedUpdate, literal } from '#infra/mongo/guarded-update.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { generations } from './collections.ts';
import type { HeldGeneration } from './take-generation.ts';

/**
 * Lets go of a row that is not settled. With a rejection, whoever waited for this holder answers the same; without one they try
 * themselves. Who is no longer the holder changes nothing.
 */
export async function giveUpGeneration(
  mongo: Mongo,
  { row, fence }: HeldGeneration,
  rejection: Rejection | null,
  session?: ClientSession,
): Promise<void> {
  const failure = rejection === null ? null : { fence, rejection: JSON.stringify(rejection) };
  const { pipeline } = guardedUpdate([{ $eq: ['$fence', fence] }, { $ne: ['$state', 'SETTLED'] }], {
    leaseUntil: '$$NOW',
    failure: literal(failure),
  });
  const options = session === undefined ? {} : { session };
  await generations(mongo).updateOne({ _id: row._id }, pipeline, { maxTimeMS: QUERY_LIMIT_MS, ...options });
}
