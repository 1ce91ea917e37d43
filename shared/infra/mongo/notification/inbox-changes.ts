import type { Document, Filter } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import { guardedUpdate, literal, wasAccepted } from '#infra/mongo/guarded-update.ts';
import { FRONT_DOOR_BUDGET_MS, inTransaction } from '#infra/mongo/transaction.ts';
import { isSupportType, type Notification } from '#shared/notification/notification.ts';
import type { Snapshot } from '#shared/notification/snapshot.ts';
import { type NotificationRow, notifications } from './collections.ts';
import { type Deliveries, type QueuedDelivery, queueDeliveries } from './deliveries.ts';
import { LOOK_OPTIONS, visiblePlace } from './inbox.ts';

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

/** Hides a row for good that the caller has found visible, and gives it as it was last. null: somebody else was first. */
export async function deleteNotification(mongo: Mongo, id: string): Promise<Notification | null> {
  const update = guardedUpdate([{ $ne: ['$place', 'DELETED'] }], { place: 'DELETED', deletedAt: '$$NOW' });
  const row = await notifications(mongo).findOneAndUpdate({ _id: id }, update.pipeline, {
    returnDocument: 'after',
    maxTimeMS: QUERY_LIMIT_MS,
  });
  return wasAccepted(update, row) ? row : null;
}

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

interface Walk {
  userId: string;
  /** Beside the user's own and visible rows. */
  only: Filter<NotificationRow>;
  /** An update pipeline that leaves alone what somebody else has changed meanwhile; a changed row falls out of `only` or of its place. */
  change: Document[];
}

/** Rows that one step of a walk looks for, by an index that holds all that it needs of them. */
const FOUND_AT_ONCE = 5_000;
/** Of these, changed by one command: short enough to hold nobody up, long enough that a large inbox is not mostly round trips. */
const CHANGED_AT_ONCE = 500;

/**
 * Changes every row of an inbox, a chunk at a time, from the newest that is there at the beginning back to the oldest: rows that
 * arrive meanwhile are newer than the first chunk and do not keep it going. Gives how many it changed; a walk that is cut short has
 * changed a part, and a second one does the rest.
 */
async function walkInbox(mongo: Mongo, walk: Walk, signal: AbortSignal): Promise<number> {
  const place = await visiblePlace(mongo);
  let changed = 0;
  for (let createdAt = {}; ; ) {
    const rows = await notifications(mongo)
      .find(
        { userId: walk.userId, place, ...walk.only, ...createdAt },
        {
          projection: { createdAt: 1 },
          sort: { createdAt: -1, _id: -1 },
          limit: FOUND_AT_ONCE,
          ...LOOK_OPTIONS,
        },
      )
      .toArray();
    const oldest = rows.at(-1);
    if (oldest === undefined) return changed;
    for (let at = 0; at < rows.length; at += CHANGED_AT_ONCE) {
      signal.throwIfAborted();
      const ids = rows.slice(at, at + CHANGED_AT_ONCE).map(({ _id }) => _id);
      const updated = await notifications(mongo).updateMany({ _id: { $in: ids } }, walk.change, {
        maxTimeMS: QUERY_LIMIT_MS,
      });
      changed += updated.modifiedCount;
    }
    createdAt = { createdAt: { $lte: oldest.createdAt } };
  }
}

/** Makes one row, with its delivery jobs where there is a channel. Gives what to ring for. */
export async function insertNotification(
  mongo: Mongo,
  row: Notification,
  { deliveries, now }: { deliveries: Deliveries; now: number },
): Promise<QueuedDelivery[]> {
  if (deliveries.channels.size === 0) {
    await notifications(mongo).insertOne({ ...row });
    return [];
  }
  return inTransaction(mongo, FRONT_DOOR_BUDGET_MS, async (session) => {
    await notifications(mongo).insertOne({ ...row }, { session });
    return queueDeliveries(mongo, [row], { ...deliveries, now, session });
  });
}

/** `foreign`: the row is another user's, and stays as it is. */
type StoredSnapshot =
  | { kind: 'created'; notification: Notification }
  | { kind: 'updated'; notification: Notification }
  | { kind: 'foreign' };

/** Stores a row as another system has it: a new one as `fresh` says, one that is there by the fields of the snapshot. */
export async function putSnapshot(
  mongo: Mongo,
  snapshot: Snapshot,
  fresh: (snapshot: Snapshot) => Notification,
): Promise<StoredSnapshot> {
  const before = await replace(mongo, snapshot);
  if (before.kind !== 'missing') return before;
  const row = fresh(snapshot);
  try {
    await notifications(mongo).insertOne({ ...row });
    return { kind: 'created', notification: row };
  } catch (error) {
    if (!isDuplicateKey(error, ['_id'])) throw error;
  }
  // Somebody else made it in between.
  const after = await replace(mongo, snapshot);
  if (after.kind === 'missing') throw new Error('a notification was refused as a duplicate of one that is not there');
  return after;
}

async function replace(mongo: Mongo, snapshot: Snapshot): Promise<StoredSnapshot | { kind: 'missing' }> {
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
  if (row === null) return { kind: 'missing' };
  return wasAccepted(update, row) ? { kind: 'updated', notification: row } : { kind: 'foreign' };
}
