import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import { guardedUpdate, literal } from '#infra/mongo/guarded-update.ts';
import { FRONT_DOOR_BUDGET_MS, inTransaction } from '#infra/mongo/transaction.ts';
import { isNewId } from '#shared/kernel/ids.ts';
import { isSupportType, type Notification } from '#shared/notification/notification.ts';
import { OPTIONAL_FIELDS, type Snapshot } from '#shared/notification/snapshot.ts';
import { notifications, snapshotIds } from './collections.ts';

/**
 * Rows as another system has them, under ids that it has chosen. Shards do not share the ids of notifications, which are on the shard of
 * their user. Each id that a snapshot has created is therefore also the `_id` of a row that is on the shard of that id.
 */

/** `foreign`: the row belongs to another user and stays as it is. */
type StoredSnapshot =
  | { kind: 'created'; notification: Notification }
  | { kind: 'updated'; notification: Notification }
  | { kind: 'foreign' };

/**
 * Stores a row as another system has it. `fresh` builds a new row; an existing row is updated with the fields of the snapshot.
 *
 * The row and its id are inserted in one transaction. Of concurrent requests that name different users, one takes the id, wherever the
 * users' rows are.
 */
export async function putSnapshot(
  mongo: Mongo,
  snapshot: Snapshot,
  fresh: (snapshot: Snapshot) => Notification,
): Promise<StoredSnapshot> {
  const before = await replace(mongo, snapshot);
  if (before !== null) return before;
  const { id } = snapshot;
  // Ids of this service have no such row. A caller learns one only after its notification is stored, so that this look-up cannot miss it.
  if (isNewId(id) && (await isStored(mongo, id))) return { kind: 'foreign' };
  const row = fresh(snapshot);
  try {
    await inTransaction(mongo, FRONT_DOOR_BUDGET_MS, async (session) => {
      await snapshotIds(mongo).insertOne({ _id: id }, { session });
      await notifications(mongo).insertOne({ ...row }, { session });
    });
    return { kind: 'created', notification: row };
  } catch (error) {
    if (!isDuplicateKey(error, ['_id'])) throw error;
  }
  // Another request took the id in between: for this user, or for another one.
  return (await replace(mongo, snapshot)) ?? { kind: 'foreign' };
}

async function isStored(mongo: Mongo, _id: string): Promise<boolean> {
  const options = { projection: { _id: 1 }, maxTimeMS: QUERY_LIMIT_MS } as const;
  return (await notifications(mongo).findOne({ _id }, options)) !== null;
}

/** Updates the user's row with the fields of the snapshot. Returns null if the user has no such row. */
async function replace(mongo: Mongo, snapshot: Snapshot): Promise<StoredSnapshot | null> {
  const { id, userId, type, title, content, isRead, readAt, deletedAt } = snapshot;
  const firstRead = readAt === null ? { $ifNull: ['$readAt', '$$NOW'] } : literal(readAt);
  const named = OPTIONAL_FIELDS.flatMap((field) => {
    const value = snapshot[field] ?? null;
    return value === null ? [] : [[field, literal(value)] as const];
  });
  const update = guardedUpdate([], {
    ...Object.fromEntries(named),
    type: literal(type),
    title: literal(title),
    content: literal(content),
    isSupport: isSupportType(type),
    ...(isRead === null ? {} : { isRead: literal(isRead), readAt: isRead ? firstRead : literal(null) }),
    ...(deletedAt === null ? {} : { place: 'DELETED', deletedAt: { $ifNull: ['$deletedAt', literal(deletedAt)] } }),
  });
  const row = await notifications(mongo).findOneAndUpdate({ _id: id, userId }, update.pipeline, {
    returnDocument: 'after',
    maxTimeMS: QUERY_LIMIT_MS,
  });
  return row === null ? null : { kind: 'updated', notification: row };
}
