import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { newId } from '#shared/kernel/ids.ts';
import { MAX_SUPPRESSED } from '#shared/notification/event.ts';
import type { FanOutPlan } from '#shared/notification/fan-out.ts';
import type { Suppression } from '#shared/notification/preferences.ts';
import { notificationSuppressions, type SuppressionRow } from './collections.ts';

/** A suppressed notification of a request. */
export type Suppressed = Suppression & Pick<SuppressionRow, 'type'>;

/**
 * Stores the first MAX_SUPPRESSED of these suppressed notifications. An erased person gets no row.
 *
 * Call it before the reply, and before the other rows of the request are stored: a caller whose request fails repeats it, and a repeat
 * must not create notifications twice.
 */
export async function storeSuppressed(
  mongo: Mongo,
  suppressed: readonly Suppressed[],
  { requestId, now }: { requestId: string; now: number },
): Promise<void> {
  const at = new Date(now);
  const rows = suppressed.flatMap(({ userId, reason, type }): SuppressionRow[] =>
    reason === 'ERASED' ? [] : [{ _id: newId(now), userId, reason, type, requestId, at }],
  );
  if (rows.length > 0) await notificationSuppressions(mongo).insertMany(rows.slice(0, MAX_SUPPRESSED));
}

/** Returns the suppressed notifications of a plan with their types. */
export function suppressedOf({ suppressed, suppressedTypes }: FanOutPlan): Suppressed[] {
  return suppressed.map((one, index) => ({ ...one, type: suppressedTypes[index] ?? '' }));
}

/** Deletes rows of before a time. Returns their number, at most `limit`. */
export async function expireSuppressions(
  mongo: Mongo,
  { before, limit }: { before: Date; limit: number },
): Promise<number> {
  const expired = await notificationSuppressions(mongo)
    .find({ at: { $lt: before } }, { projection: { _id: 1 }, limit, maxTimeMS: QUERY_LIMIT_MS })
    .toArray();
  const ids = expired.map(({ _id }) => _id);
  if (ids.length > 0) await notificationSuppressions(mongo).deleteMany({ _id: { $in: ids } });
  return ids.length;
}
