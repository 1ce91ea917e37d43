import type { ClientSession } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { newStamp, Stale } from '#infra/mongo/guarded-update.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { postCommandsIn } from '#infra/mongo/mailbox/mailbox.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { noticeOrder } from '#shared/attempt/commands.ts';
import type { GradeNotice } from '#shared/attempt/notices.ts';
import type { Release } from '#shared/attempt/release.ts';
import { attempts, type ReleaseRow, releases } from './collections.ts';

/** A release is remembered for its exam, set on each attempt that it reaches, and announced by notices. */

/**
 * Remembers that the exam's results are out, the first time that it is said. Written and committed before any attempt
 * is touched: an attempt started or graded after this reads it, and one committed before is found by the walk.
 */
export async function rememberRelease(mongo: Mongo, release: Release): Promise<void> {
  await releases(mongo).updateOne(
    { _id: releaseRowId(release.examId, release.organizationId) },
    {
      $setOnInsert: {
        examId: release.examId,
        organizationId: release.organizationId,
        releasedAt: release.releasedAt,
        sourceEventId: release.sourceEventId,
      },
    },
    { upsert: true },
  );
}

/** The release that an attempt of this exam and organization falls under, the earlier where there are two. */
export async function findRelease(
  mongo: Mongo,
  examId: string,
  organizationId: string | null,
  session?: ClientSession,
): Promise<ReleaseRow | null> {
  const ids = [releaseRowId(examId, null), ...(organizationId === null ? [] : [releaseRowId(examId, organizationId)])];
  const found = await releases(mongo)
    .find({ _id: { $in: ids } }, session === undefined ? {} : { session })
    .toArray();
  return found.sort((a, b) => a.releasedAt.getTime() - b.releasedAt.getTime())[0] ?? null;
}

/** As JSON, so that no choice of ids can make two pairs meet. */
function releaseRowId(examId: string, organizationId: string | null): string {
  return JSON.stringify([examId, organizationId]);
}

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

/**
 * Queues the notices in the transaction of their cause. A row that is there already is a duplicate key error, which
 * aborts that transaction: two causes never both announce one attempt.
 */
export async function queueNotices(
  mongo: Mongo,
  session: ClientSession,
  notices: readonly GradeNotice[],
  options: { maxAttempts: number; now: number },
): Promise<void> {
  const rows = notices.map((notice) => newCommand({ ...noticeOrder(notice), ...options, id: notice.sourceEventId }));
  await postCommandsIn(mongo, session, rows);
}
