import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import { guardedUpdate, literal, wasAccepted } from '#infra/mongo/guarded-update.ts';
import { isSupportType, type Notification } from '#shared/notification/notification.ts';
import type { Snapshot } from '#shared/notification/snapshot.ts';
import { notifications } from './collections.ts';

export type StoredSnapshot = { notification: Notification; created: boolean } | 'another-owner';

/** Stores a row as another system has it: a new one as `fresh` says, one that is there by the fields of the snapshot. */
export async function putSnapshot(
  mongo: Mongo,
  snapshot: Snapshot,
  fresh: (snapshot: Snapshot) => Notification,
): Promise<StoredSnapshot> {
  const before = await replace(mongo, snapshot);
  if (before !== null) return before;
  const row = fresh(snapshot);
  try {
    await notifications(mongo).insertOne({ ...row });
    return { notification: row, created: true };
  } catch (error) {
    if (!isDuplicateKey(error, ['_id'])) throw error;
  }
  // Somebody else made it in between.
  const after = await replace(mongo, snapshot);
  if (after === null) throw new Error('a notification was refused as a duplicate of one that is not there');
  return after;
}

/** null: there is no such row. */
async function replace(mongo: Mongo, snapshot: Snapshot): Promise<StoredSnapshot | null> {
  const { id, userId, organizationId, type, title, content, isRead, readAt, deletedAt, createdAt } = snapshot;
  const firstRead = readAt === null ? { $ifNull: ['$readAt', '$$NOW'] } : literal(readAt);
  const update = guardedUpdate([{ $eq: ['$userId', literal(userId)] }], {
    ...(organizationId === null ? {} : { organizationId: literal(organizationId) }),
    type: literal(type),
    title: literal(title),
    content: literal(content),
    isSupport: isSupportType(type),
    createdAt: literal(createdAt),
    isRead: literal(isRead),
    readAt: isRead ? firstRead : literal(null),
    ...(deletedAt === null ? {} : { place: 'DELETED', deletedAt: { $ifNull: ['$deletedAt', literal(deletedAt)] } }),
  });
  const row = await notifications(mongo).findOneAndUpdate({ _id: id }, update.pipeline, {
    returnDocument: 'after',
    maxTimeMS: QUERY_LIMIT_MS,
  });
  if (row === null) return null;
  return wasAccepted(update, row) ? { notification: row, created: false } : 'another-owner';
}
