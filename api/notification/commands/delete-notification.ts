import type { NotificationDeps } from '#api/notification/deps.ts';
import { visibleTo } from '#api/notification/visible-to.ts';
import type { Call, Reply } from '#api/route.ts';
import { deleteNotification } from '#infra/mongo/notification/inbox-changes.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { notificationView } from '#shared/notification/notification.ts';

/** Hides one notification for good; whoever comes second finds nothing. */
export async function deleteOneNotification(deps: NotificationDeps, call: Call): Promise<Reply | Rejection> {
  const found = await visibleTo(deps, call, 'role');
  if (isRejection(found)) return found;
  const row = await deleteNotification(deps.mongo, found._id);
  if (row === null) return { rejected: 'NOTIFICATION_NOT_FOUND' };
  deps.wake([row.userId]);
  return { status: 200, data: { notification: notificationView(row) } };
}
