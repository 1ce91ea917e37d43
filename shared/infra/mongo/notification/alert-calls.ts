import type { Mongo } from '#infra/mongo/connect.ts';
import { updateRow } from '#infra/mongo/guarded-row.ts';
import { guardedUpdate, msOf, NOW_MS, nowPlus, wasAccepted } from '#infra/mongo/guarded-update.ts';
import { HOUR, SECOND } from '#shared/kernel/time.ts';
import { alertCalls } from './collections.ts';

/** Result of counting a call. `refused`: the actor has made `limit` calls within the last hour. */
type CountedCall = { kind: 'counted' } | { kind: 'refused'; retryAfterMs: number };

/**
 * Counts one call of an actor, or refuses it if `limit` calls were counted within the last hour by MongoDB's clock. One update
 * reads and counts, so concurrent calls at any front door cannot exceed the limit. The count is in MongoDB because Redis may be
 * lost. A refused call is not counted. `now` is MongoDB's time in Unix milliseconds and yields `retryAfterMs` only.
 */
export async function countAlertCall(
  mongo: Mongo,
  actorId: string,
  { limit, now }: { limit: number; now: number },
): Promise<CountedCall> {
  const isRecent = { $gt: [msOf('$$this'), { $subtract: [NOW_MS, HOUR] }] };
  const recent = { $filter: { input: '$calls', cond: isRecent } };
  const update = guardedUpdate([{ $lt: [{ $size: recent }, limit] }], {
    calls: { $concatArrays: [recent, [nowPlus(0)]] },
    lastAt: nowPlus(0),
  });
  const row = await updateRow(alertCalls(mongo), { _id: actorId, calls: [], lastAt: new Date(now) }, update);
  if (wasAccepted(update, row)) return { kind: 'counted' };
  const since = now - HOUR;
  const oldest = row.calls.map((at) => at.getTime()).find((at) => at > since) ?? since;
  return { kind: 'refused', retryAfterMs: Math.max(SECOND, oldest - since) };
}
