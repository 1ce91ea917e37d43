import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { type GuardedUpdate, guardedUpdate, literal, msOf, NOW_MS } from '#infra/mongo/guarded-update.ts';
import type { AttemptKey } from '#shared/attempt/attempt.ts';
import { type TimeGrant, timeMetadata } from '#shared/attempt/extra-time.ts';
import { LAST_INSTANT, MINUTE } from '#shared/kernel/time.ts';
import { attempts, whereKey } from './collections.ts';
import { EVENT_TIME } from './events.ts';

/**
 * Returns the update that moves the deadline of an open attempt by the minutes of a grant, once. By MongoDB's clock the new deadline must be
 * ahead, so an attempt whose time is over goes on only if the grant reaches into the future. A save or submit of the same moment sees one
 * deadline or the other, because each of them is one update of the attempt too.
 */
export function extendedBy(grant: TimeGrant): GuardedUpdate {
  const given = { $ifNull: ['$extraTime', []] };
  const sum = { $add: [msOf('$deadlineAt'), grant.minutes * MINUTE] };
  const later = { $cond: [{ $gt: [sum, LAST_INSTANT] }, LAST_INSTANT, sum] };
  const event = {
    seq: { $add: ['$eventSeq', 1] },
    type: 'TIME_EXTENDED',
    metadata: literal(JSON.stringify(timeMetadata(grant))),
    createdAt: EVENT_TIME,
  };
  return guardedUpdate(
    [
      { $eq: ['$status', 'IN_PROGRESS'] },
      { $ne: ['$deadlineAt', null] },
      { $gt: [later, NOW_MS] },
      { $not: [{ $in: [literal(grant._id), given] }] },
    ],
    {
      deadlineAt: { $toDate: later },
      extraMinutes: { $add: [{ $ifNull: ['$extraMinutes', 0] }, grant.minutes] },
      extraTime: { $concatArrays: [given, [literal(grant._id)]] },
      events: { $concatArrays: ['$events', [event]] },
      eventSeq: { $add: ['$eventSeq', 1] },
      boardAt: '$$NOW',
    },
  );
}

/** Moves the deadline of one attempt by a grant, as `extendedBy` does. */
export async function extendDeadline(mongo: Mongo, attempt: AttemptKey, grant: TimeGrant): Promise<void> {
  await attempts(mongo).updateOne(whereKey(attempt), extendedBy(grant).pipeline, { maxTimeMS: QUERY_LIMIT_MS });
}
