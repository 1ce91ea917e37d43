import type { Document, Filter } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { guardedUpdate, wasAccepted } from '#infra/mongo/guarded-update.ts';
import { FRONT_DOOR_BUDGET_MS, inTransaction } from '#infra/mongo/transaction.ts';
import type { CommandRef } from '#shared/kernel/command.ts';
import type { Notification } from '#shared/notification/notification.ts';
import { type NotificationKey, type NotificationRow, notifications } from './collections.ts';
import { type Deliveries, queueDeliveries } from './deliveries.ts';
import { readOf, visiblePlace } from './inbox.ts';

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
const CHANGED_AT_ONCE = 200;
/** Time limit of one such command (ms), below that of the socket. It may wait for another walk of the same inbox. */
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
          ...readOf(place),
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
