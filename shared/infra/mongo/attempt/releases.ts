import type { ClientSession } from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { Release } from '#shared/attempt/release.ts';
import { type ReleaseRow, releases } from './collections.ts';

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
