import type { SnapshotRequest } from '#shared/generated/notification.ts';
import { instantOf } from '#shared/kernel/time.ts';
import { isSupportType, type Notification } from './notification.ts';

/** A notification as another system has it. Fields that a snapshot does not have keep their stored values. */
export interface Snapshot {
  id: string;
  userId: string;
  organizationId: string | null;
  type: string;
  title: string;
  content: string;
  isRead: boolean;
  /** If null and `isRead`, the stored value is kept; without a stored value it becomes the current time. */
  readAt: Date | null;
  /** If set, the notification is deleted permanently. */
  deletedAt: Date | null;
  createdAt: Date;
}

/** Converts a body that passed its schema to a snapshot. */
export function readSnapshot(id: string, body: SnapshotRequest): Snapshot {
  const createdAt = instantOf(body.createdAt);
  if (createdAt === null) throw new Error('a snapshot without createdAt passed its schema');
  const { userId, organizationId = null, type, title, content, isRead } = body;
  const [readAt, deletedAt] = [instantOf(body.readAt), instantOf(body.deletedAt)];
  return { id, userId, organizationId, type, title, content, isRead, readAt, deletedAt, createdAt };
}

/** Returns the row of the first snapshot of an id. */
export function newFromSnapshot(snapshot: Snapshot, facts: { now: Date; organizationId: string | null }): Notification {
  const { id, userId, organizationId, type, title, content, isRead, readAt, deletedAt, createdAt } = snapshot;
  return {
    _id: id,
    userId,
    organizationId: organizationId ?? facts.organizationId,
    type,
    title,
    content,
    preferenceType: null,
    actorId: null,
    entity: null,
    entityId: null,
    data: null,
    sourceEventRef: null,
    place: deletedAt === null ? 'INBOX' : 'DELETED',
    isRead,
    readAt: isRead ? (readAt ?? facts.now) : null,
    isSupport: isSupportType(type),
    fanOutId: null,
    ordinal: 0,
    createdAt,
    deletedAt,
  };
}
