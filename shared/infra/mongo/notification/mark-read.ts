import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { guardedUpdate } from '#infra/mongo/guarded-update.ts';
import type { Notification } from '#shared/notification/notification.ts';
import { notifications } from './collections.ts';

/**
 * Marks a row read that the caller has found visible, and gives it as it is then: one that was read before keeps its first time.
 * null: it was deleted meanwhile.
 */
export async function markRead(mongo: Mongo, id: string): Promise<Notification | null> {
  const { pipeline } = guardedUpdate([{ $eq: ['$isRead', false] }, { $ne: ['$place', 'DELETED'] }], {
    isRead: true,
    readAt: '$$NOW',
  });
  const row = await notifications(mongo).findOneAndUpdate({ _id: id }, pipeline, {
    returnDocument: 'after',
    maxTimeMS: QUERY_LIMIT_MS,
  });
  return row === null || row.place === 'DELETED' ? null : row;
}
