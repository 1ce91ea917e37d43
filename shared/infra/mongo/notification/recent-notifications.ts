import type { Mongo } from '#infra/mongo/connect.ts';
import { type NotificationRow, notifications } from './collections.ts';
import { LOOK_OPTIONS, look } from './look.ts';

/** A user who was told more within the window hears of the newest; the counts tell of all. */
const LIMIT = 1_000;

/** Rows of this inbox that were made after `from`, oldest first. */
export async function recentNotifications(mongo: Mongo, userId: string, from: Date): Promise<NotificationRow[]> {
  const newestFirst = await look(mongo, (place) =>
    notifications(mongo)
      .find(
        { userId, place, createdAt: { $gt: from } },
        { sort: { createdAt: -1, _id: -1 }, limit: LIMIT, ...LOOK_OPTIONS },
      )
      .toArray(),
  );
  return newestFirst.reverse();
}
