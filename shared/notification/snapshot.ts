import type { SnapshotRequest } from '#shared/generated/notification.ts';
import { instantOf } from '#shared/kernel/time.ts';
import { isSupportType, type Notification } from './notification.ts';

/** Fields that a snapshot may lack; its row then keeps the stored value. */
export const OPTIONAL_FIELDS = [
  'organizationId',
  'preferenceType',
  'actorId',
  'entity',
  'entityId',
  'data',
  'sourceEventRef',
  'createdAt',
] as const satisfies readonly (keyof Notification)[];

/** A notification as another system has it. A field that is absent or null keeps its stored value. */
export interface Snapshot extends Partial<Pick<Notification, Exclude<(typeof OPTIONAL_FIELDS)[number], 'createdAt'>>> {
  id: string;
  userId: string;
  type: string;
  title: string;
  content: string;
  isRead: boolean | null;
  /** If null and `isRead`, the stored value is kept; without a stored value it becomes the current time. */
  readAt: Date | null;
  /** If set, the notification is deleted permanently. */
  deletedAt: Date | null;
  createdAt: Date | null;
}

/** Converts a body that passed its schema to a snapshot. */
export function readSnapshot(id: string, body: SnapshotRequest): Snapshot {
  const { userId, organizationId = null, type, title, content, preferenceType = null, sourceEventRef = null } = body;
  const { actorId = null, entity = null, entityId = null, data = null } = body;
  const readAt = instantOf(body.readAt);
  return {
    id,
    userId,
    organizationId,
    type,
    title,
    content,
    preferenceType,
    actorId,
    entity,
    entityId,
    data: data === null ? null : JSON.stringify(data),
    sourceEventRef,
    // Many systems store the time alone.
    isRead: body.isRead ?? (readAt === null ? null : true),
    readAt,
    deletedAt: instantOf(body.deletedAt),
    createdAt: instantOf(body.createdAt),
  };
}

/** Returns the row of the first snapshot of an id. */
export function newFromSnapshot(snapshot: Snapshot, facts: { now: Date; organizationId: string | null }): Notification {
  const { id, userId, type, title, content, readAt, deletedAt } = snapshot;
  const isRead = snapshot.isRead ?? false;
  return {
    _id: id,
    userId,
    organizationId: snapshot.organizationId ?? facts.organizationId,
    type,
    title,
    content,
    preferenceType: snapshot.preferenceType ?? null,
    actorId: snapshot.actorId ?? null,
    entity: snapshot.entity ?? null,
    entityId: snapshot.entityId ?? null,
    data: snapshot.data ?? null,
    sourceEventRef: snapshot.sourceEventRef ?? null,
    place: deletedAt === null ? 'INBOX' : 'DELETED',
    isRead,
    readAt: isRead ? (readAt ?? facts.now) : null,
    isSupport: isSupportType(type),
    fanOutId: null,
    ordinal: 0,
    createdAt: snapshot.createdAt ?? facts.now,
    deletedAt,
  };
}
