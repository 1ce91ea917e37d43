import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import type { Attempt, AttemptKey, Sitting } from '#shared/attempt/attempt.ts';
import { attempts, whereKey } from './collections.ts';

/** Fields of an earlier attempt that a start needs. */
export type EarlierAttempt = Sitting &
  Pick<Attempt, 'status' | 'deadlineAt' | 'accessLinkId' | 'attemptNumber' | 'startKeys' | 'voidedAt' | 'stamp'>;

type OfExam = Pick<Attempt, 'examId' | 'studentId'>;

/**
 * Returns, for each of these students at an exam, all of their attempts at it, oldest first. They are few: one read serves the start key,
 * the open attempt and the counts.
 */
export async function earlierAmong(mongo: Mongo, wanted: readonly OfExam[]): Promise<EarlierAttempt[][]> {
  const found = (await attempts(mongo)
    .find(
      { studentId: { $in: wanted.map((one) => one.studentId) }, examId: { $in: wanted.map((one) => one.examId) } },
      {
        projection: {
          examId: 1,
          studentId: 1,
          status: 1,
          deadlineAt: 1,
          accessLinkId: 1,
          attemptNumber: 1,
          startKeys: 1,
          round: 1,
          voidedAt: 1,
          stamp: 1,
        },
        sort: { attemptNumber: 1 },
        hint: 'attempt_number_of_student',
        maxTimeMS: QUERY_LIMIT_MS,
      },
    )
    .toArray()) as (EarlierAttempt & OfExam)[];
  return wanted.map(({ examId, studentId }) =>
    found.filter((attempt) => attempt.examId === examId && attempt.studentId === studentId),
  );
}

/**
 * Stores a further start key in the attempt, which keeps its first key and the newest `aliases` others. Does nothing if it has the key.
 * Throws a duplicate key error if another attempt of this student has it.
 */
export async function addStartKey(mongo: Mongo, attempt: AttemptKey, key: string, aliases: number): Promise<void> {
  await attempts(mongo).updateOne(
    { ...whereKey(attempt), startKeys: { $ne: key } },
    { $push: { startKeys: { $each: [key], $position: 1, $slice: aliases + 1 } } },
    { maxTimeMS: QUERY_LIMIT_MS },
  );
}
