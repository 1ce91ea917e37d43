import type { Document, Filter } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import { guardedUpdate, literal, wasAccepted } from '#infra/mongo/guarded-update.ts';
import { FRONT_DOOR_BUDGET_MS, inTransaction } from '#infra/mongo/transaction.ts';
import type { CommandRef } from '#shared/kernel/command.ts';
import { isSupportType, type Notification } from '#shared/notification/notification.ts';
import type { Snapshot } from '#shared/notification/snapshot.ts';
import { type NotificationKey, type NotificationRow, notifications } from './collections.ts';
import { type Deliveries, queueDeliveries } from './deliveries.ts';
import { SNAPSHOT_READ, visiblePlace } from './inbox.ts';

/**
 * Marks a row as read and returns it as it is afterwards. The caller must have found the row visible. A row that was read before
 * keeps its first time. Returns null if the row was deleted meanwhile.
 */
export async function markRead(mongo: Mongo, { _id, userId }: NotificationKey): Promise<Notification | null> {
  const { pipeline } = guardedUpdate([{ $eq: ['$isRead', false] }, { $ne: ['$place', 'DELETED'] }], {
    isRead: true,
    readAt: '$$NOW',
  });
  const row = await notifications(mongo).findOneAndUpdate({ _id, userId }, pipeline, {
    returnDocument: 'after',
    maxTimeMS: QUERY_LIMIT_MS,
  });
  return row === null || row.place === 'DELETED' ? null : row;
}

/** Marks all unread rows of this user as read. Returns how many rows it changed. */
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

/**
 * Hides a row for good and returns its last state. The caller must have found the row visible. Returns null if another request
 * deleted it first.
 */
export async function deleteNotification(mongo: Mongo, { _id, userId }: NotificationKey): Promise<Notification | null> {
  const update = guardedUpdate([{ $ne: ['$place', 'DELETED'] }], { place: 'DELETED', deletedAt: '$$NOW' });
  const row = await notifications(mongo).findOneAndUpdate({ _id, userId }, update.pipeline, {
    returnDocument: 'after',
    maxTimeMS: QUERY_LIMIT_MS,
  });
  return wasAccepted(update, row) ? row : null;
}

/** Deletes all rows in this user's inbox. Returns how many rows it deleted. */
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

interface Walk {
  userId: string;
  /** Further conditions on the visible rows of the user. */
  only: Filter<NotificationRow>;
  /**
   * An update pipeline that leaves a row unchanged if another request has changed it meanwhile. A changed row no longer matches
   * `only` or the place.
   */
  change: Document[];
}

/** Rows that one query of a walk returns, from an index that contains all the fields it needs. */
const FOUND_AT_ONCE = 5_000;
/**
 * Rows that one command changes: few enough not to block other writers, many enough that a large inbox is not mostly round trips.
 */
const CHANGED_AT_ONCE = 500;
/** Time limit of one such command (ms). It writes up to 500 rows, and may wait for another walk of the same inbox. */
const CHANGE_LIMIT_MS = 3 * QUERY_LIMIT_MS;

/**
 * Changes every row of an inbox, a chunk at a time, from the newest row at the beginning back to the oldest. Rows that arrive
 * meanwhile are newer than the first chunk and do not prolong the walk. Returns how many rows it changed. Throws if `signal`
 * aborts: a part of the rows is changed then, and another walk changes the rest.
 */
async function walkInbox(mongo: Mongo, walk: Walk, signal: AbortSignal): Promise<number> {
  const { userId } = walk;
  const place = await visiblePlace(mongo);
  let changed = 0;
  for (let createdAt = {}; ; ) {
    const rows = await notifications(mongo)
      .find(
        { userId, place, ...walk.only, ...createdAt },
        {
          projection: { createdAt: 1 },
          sort: { createdAt: -1, _id: -1 },
          limit: FOUND_AT_ONCE,
          ...SNAPSHOT_READ,
        },
      )
      .toArray();
    const oldest = rows.at(-1);
    if (oldest === undefined) return changed;
    for (let at = 0; at < rows.length; at += CHANGED_AT_ONCE) {
      signal.throwIfAborted();
      const ids = rows.slice(at, at + CHANGED_AT_ONCE).map(({ _id }) => _id);
      const updated = await notifications(mongo).updateMany({ _id: { $in: ids }, userId }, walk.change, {
        maxTimeMS: CHANGE_LIMIT_MS,
      });
      changed += updated.modifiedCount;
    }
    createdAt = { createdAt: { $lte: oldest.createdAt } };
  }
}

/** Inserts one row, with its delivery jobs if there is a channel. Returns the jobs to ring for. */
export async function insertNotification(
  mongo: Mongo,
  row: Notification,
  { deliveries, now }: { deliveries: Deliveries; now: number },
): Promise<CommandRef[]> {
  if (deliveries.channels.size === 0) {
    await notifications(mongo).insertOne({ ...row });
    return [];
  }
  return inTransaction(mongo, FRONT_DOOR_BUDGET_MS, async (session) => {
    await notifications(mongo).insertOne({ ...row }, { session });
    return queueDeliveries(mongo, [row], { ...deliveries, now, session });
  });
}

/** `foreign`: the row belongs to another user and stays as it is. */
type StoredSnapshot =
  | { kind: 'created'; notification: Notification }
  | { kind: 'updated'; notification: Notification }
  | { kind: 'foreign' };

/**
 * Stores a row as another system has it. `fresh` builds a new row; an existing row is updated with the fields of the snapshot.
 *
 * Shards do not share their ids, so a row of another user is looked up before the insert. Of two concurrent requests that name different
 * users, the insert refuses one only if both rows are on one shard.
 */
export async function putSnapshot(
  mongo: Mongo,
  snapshot: Snapshot,
  fresh: (snapshot: Snapshot) => Notification,
): Promise<StoredSnapshot> {
  const before = await replace(mongo, snapshot);
  if (before !== null) return before;
  if (await belongsToAnother(mongo, snapshot)) return { kind: 'foreign' };
  const row = fresh(snapshot);
  try {
    await notifications(mongo).insertOne({ ...row });
    return { kind: 'created', notification: row };
  } catch (error) {
    if (!isDuplicateKey(error, ['_id'])) throw error;
  }
  // Another request inserted the row in between.
  const after = await replace(mongo, snapshot);
  if (after !== null) return after;
  if (await belongsToAnother(mongo, snapshot)) return { kind: 'foreign' };
  throw new Error('duplicate key for a notification that does not exist');
}

async function belongsToAnother(mongo: Mongo, { id, userId }: Snapshot): Promise<boolean> {
  const options = { projection: { userId: 1 }, maxTimeMS: QUERY_LIMIT_MS };
  const row = await notifications(mongo).findOne({ _id: id }, options);
  return row !== null && row.userId !== userId;
}

/** Updates the user's row with the fields of the snapshot. Returns null if the user has no such row. */
async function replace(mongo: Mongo, snapshot: Snapshot): Promise<StoredSnapshot | null> {
  const { id, userId, organizationId, type, title, content, isRead, readAt, deletedAt, createdAt } = snapshot;
  const firstRead = readAt === null ? { $ifNull: ['$readAt', '$$NOW'] } : literal(readAt);
  const update = guardedUpdate([], {
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
  const row = await notifications(mongo).findOneAndUpdate({ _id: id, userId }, update.pipeline, {
    returnDocument: 'after',
    maxTimeMS: QUERY_LIMIT_MS,
  });
  return row === null ? null : { kind: 'updated', notification: row };
}
