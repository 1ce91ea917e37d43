import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { guardedUpdate, wasAccepted } from '#infra/mongo/guarded-update.ts';
import type { Notification } from '#shared/notification/notification.ts';
import { notifications } from './collections.ts';

/** Hides a row for good that the caller has found visible, and gives it as it was last. null: somebody else was first. */
export async function deleteNotification(mongo: Mongo, id: string): Promise<Notification | null> {
  const update = guardedUpdate([{ $ne: ['$place', 'DELETED'] }], { place: 'DELETED', deletedAt: '$$NOW' });
  const row = await notifications(mongo).findOneAndUpdate({ _id: id }, update.pipeline, {
    returnDocument: 'after',
    maxTimeMS: QUERY_LIMIT_MS,
  });
  return wasAccepted(update, row) ? row : null;
}
