import type { Mongo } from '#infra/mongo/connect.ts';
import { notifications } from '#infra/mongo/notification/collections.ts';
import { newId } from '#shared/kernel/ids.ts';
import { isSupportType, type Notification } from '#shared/notification/notification.ts';

/** Returns an unread notification in an inbox; `change` overrides fields. */
export function freshNotification(change: Partial<Notification> = {}): Notification {
  const type = change.type ?? 'GRADE_RELEASED';
  return {
    _id: newId(),
    userId: 'student-1',
    organizationId: null,
    type,
    title: 'Kết quả',
    content: 'Bài thi đã có.',
    preferenceType: null,
    actorId: null,
    entity: null,
    entityId: null,
    data: null,
    sourceEventRef: null,
    place: 'INBOX',
    isRead: false,
    readAt: null,
    isSupport: isSupportType(type),
    fanOutId: null,
    ordinal: 0,
    createdAt: new Date(),
    deletedAt: null,
    ...change,
  };
}

const CHUNK = 5_000;

/** Stores `count` notifications in order. `change` overrides fields by the number of the row, from 0. */
export async function storeNotifications(
  mongo: Mongo,
  count: number,
  change: (n: number) => Partial<Notification> = () => ({}),
): Promise<Notification[]> {
  const rows = Array.from({ length: count }, (_, n) => freshNotification(change(n)));
  for (let from = 0; from < count; from += CHUNK) {
    await notifications(mongo).insertMany(rows.slice(from, from + CHUNK));
  }
  return rows;
}
