import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import type { NotificationEvent } from '#shared/notification/event.ts';
import { notificationEvents, notifications } from './collections.ts';

/** The event that a producer has sent under this pair before, whichever route brought it. */
export function findEvent(
  mongo: Mongo,
  { sourceService, sourceEventId }: { sourceService: string; sourceEventId: string },
): Promise<NotificationEvent | null> {
  return notificationEvents(mongo).findOne(
    { sourceService, sourceEventId, replayable: true },
    { maxTimeMS: QUERY_LIMIT_MS },
  );
}

/** Ids of the rows that a fan-out made, in their order; those that were deleted since are named too. */
export async function idsOfFanOut(mongo: Mongo, fanOutId: string): Promise<string[]> {
  const rows = await notifications(mongo)
    .find({ fanOutId }, { projection: { _id: 1 }, sort: { ordinal: 1 }, maxTimeMS: QUERY_LIMIT_MS })
    .toArray();
  return rows.map(({ _id }) => _id);
}
