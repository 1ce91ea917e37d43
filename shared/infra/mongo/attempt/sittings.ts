import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { attempts } from './collections.ts';

/** What a start must know of one earlier attempt. */
export type Sitting = Pick<Attempt, '_id' | 'status' | 'accessLinkId' | 'attemptNumber' | 'startKeys'>;

/** All attempts of one student at one exam, oldest first: few, and one read answers key, open attempt and counts. */
export async function sittingsOf(mongo: Mongo, examId: string, studentId: string): Promise<Sitting[]> {
  const found = await attempts(mongo)
    .find(
      { examId, studentId },
      {
        projection: { status: 1, accessLinkId: 1, attemptNumber: 1, startKeys: 1 },
        sort: { attemptNumber: 1 },
        maxTimeMS: QUERY_LIMIT_MS,
      },
    )
    .toArray();
  return found as Sitting[];
}

/**
 * Remembers a further key of the attempt. A duplicate key error says that another attempt of this student has it,
 * and false that the attempt has `room` keys already.
 */
export async function addStartKey(mongo: Mongo, attemptId: string, key: string, room: number): Promise<boolean> {
  const written = await attempts(mongo).updateOne(
    { _id: attemptId, [`startKeys.${room - 1}`]: { $exists: false } },
    { $addToSet: { startKeys: key } },
    { maxTimeMS: QUERY_LIMIT_MS },
  );
  return written.matchedCount === 1;
}
