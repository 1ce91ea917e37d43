import type { Mongo } from '#infra/mongo/connect.ts';
import { walkInbox } from './walk-inbox.ts';

/** Marks read what this user has not read yet. Gives how many that were. */
export function markAllRead(mongo: Mongo, userId: string, signal: AbortSignal): Promise<number> {
  const isMine = { $and: [{ $eq: ['$isRead', false] }, { $ne: ['$place', 'DELETED'] }] };
  return walkInbox(
    mongo,
    {
      userId,
      only: { isRead: false },
      change: [
        { $set: { readAt: { $cond: [isMine, '$$NOW', '$readAt'] }, isRead: { $cond: [isMine, true, '$isRead'] } } },
      ],
    },
    signal,
  );
}
