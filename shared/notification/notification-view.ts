import type { Notification } from './notification.ts';

/** What leaves the service of a row; `place` and the fan-out are nobody's business. */
export function notificationView(row: Notification) {
  return {
    id: row._id,
    userId: row.userId,
    organizationId: row.organizationId,
    type: row.type,
    title: row.title,
    content: row.content,
    preferenceType: row.preferenceType,
    actorId: row.actorId,
    entity: row.entity,
    entityId: row.entityId,
    data: row.data === null ? null : (JSON.parse(row.data) as Record<string, unknown>),
    sourceEventRef: row.sourceEventRef,
    isRead: row.isRead,
    readAt: row.readAt?.toISOString() ?? null,
    createdAt: row.createdAt.toISOString(),
  };
}
