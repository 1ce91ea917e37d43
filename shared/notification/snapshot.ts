import type { SnapshotRequest } from '#shared/generated/notification.ts';
import { instantOf } from '#shared/kernel/time.ts';
import { isSupportType, type Notification } from './notification.ts';

/** A notification as another system has it; what it does not name stays as it is stored. */
export interface Snapshot {
  id: string;
  userId: string;
  organizationId: string | null;
  type: string;
  title: string;
  content: string;
  isRead: boolean;
  /** Of a read one: null keeps what is stored, else it is now. */
  readAt: Date | null;
  /** Given: deleted, for good. */
  deletedAt: Date | null;
  createdAt: Date;
}

/** A body whose shape has been checked. */
export function readSnapshot(id: string, body: SnapshotRequest): Snapshot {
  const createdAt = instantOf(body.createdAt);
  if (createdAt === null) throw new Error('a snapshot without createdAt passed its schema');
  const { userId, organizationId = null, type, title, content, isRead } = body;
  const [readAt, deletedAt] = [instantOf(body.readAt), instantOf(body.deletedAt)];
  return { id, userId, organizationId, type, title, content, isRead, readAt, deletedAt, createdAt };
}

/** The row of a snapshot that is the first of its id. */
export function newFromSnapshot(snapshot: Snapshot, made: { now: Date; organizationId: string | null }): Notification {
  const { id, userId, organizationId, type, title, content, isRead, readAt, deletedAt, createdAt } = snapshot;
  return {
    _id: id,
    userId,
    organizationId: organizationId ?? made.organizationId,
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
    readAt: isRead ? (readAt ?? made.now) : null,
    isSupport: isSupportType(type),
    fanOutId: null,
    ordinal: 0,
    createdAt,
    deletedAt,
  };
}
