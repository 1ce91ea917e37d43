import type { Mongo } from '#infra/mongo/connect.ts';
import { walkInbox } from './walk-inbox.ts';

/** Deletes what this user has in the inbox. Gives how many that were. */
export function deleteAll(mongo: Mongo, userId: string, signal: AbortSignal): Promise<number> {
  const isMine = { $ne: ['$place', 'DELETED'] };
  return walkInbox(
    mongo,
    {
      userId,
      only: {},
      change: [{ $set: { deletedAt: { $cond: [isMine, '$$NOW', '$deletedAt'] }, place: 'DELETED' } }],
    },
    signal,
  );
}
