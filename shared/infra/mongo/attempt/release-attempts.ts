import type { ClientSession } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { newStamp } from '#infra/mongo/guarded-update.ts';
import { Stale } from '#infra/mongo/stale.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { attempts } from './collections.ts';

/** What a release must know of an attempt. */
export type UnreleasedAttempt = Pick<
  Attempt,
  '_id' | 'examId' | 'organizationId' | 'studentId' | 'status' | 'exam' | 'stamp'
>;

/** The next attempts of the exam whose copied release time is empty, by id after `afterId`, at most `limit`. */
export async function unreleasedAttempts(
  mongo: Mongo,
  examId: string,
  afterId: string,
  limit: number,
): Promise<UnreleasedAttempt[]> {
  const found = await attempts(mongo)
    .find(
      { examId, 'exam.resultsReleasedAt': null, _id: { $gt: afterId } },
      {
        projection: { examId: 1, organizationId: 1, studentId: 1, status: 1, exam: 1, stamp: 1 },
        sort: { _id: 1 },
        limit,
        maxTimeMS: QUERY_LIMIT_MS,
      },
    )
    .toArray();
  return found as UnreleasedAttempt[];
}

/**
 * Sets the release time on these attempts, in the caller's transaction. Each must still be as it was read, because
 * whether it queues notices was decided on that: one that was graded meanwhile makes this throw Stale.
 */
export async function setReleased(
  mongo: Mongo,
  read: readonly UnreleasedAttempt[],
  releasedAt: Date,
  session: ClientSession,
): Promise<void> {
  if (read.length === 0) return;
  // One statement for all: stamps are random words and differ among unreleased attempts, so an attempt that was written
  // to meanwhile carries none of those that were read.
  const written = await attempts(mongo).updateMany(
    { _id: { $in: read.map((attempt) => attempt._id) }, stamp: { $in: read.map((attempt) => attempt.stamp) } },
    { $set: { 'exam.resultsReleasedAt': releasedAt, 'tally.released': true, stamp: newStamp() } },
    { session },
  );
  if (written.matchedCount !== read.length) throw new Stale('attempts of a release');
}

/** The same for one attempt that has just been started, unless a release or its grading came first: it has no notices yet. */
export async function releaseOne(mongo: Mongo, attemptId: string, releasedAt: Date): Promise<void> {
  await attempts(mongo).updateOne(
    { _id: attemptId, status: 'IN_PROGRESS', 'exam.resultsReleasedAt': null },
    { $set: { 'exam.resultsReleasedAt': releasedAt, 'tally.released': true, stamp: newStamp() } },
    { maxTimeMS: QUERY_LIMIT_MS },
  );
}
