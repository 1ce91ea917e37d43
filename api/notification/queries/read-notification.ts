import type { NotificationDeps } from '#api/notification/deps.ts';
import { visibleTo } from '#api/notification/visible-to.ts';
import type { Call, Reply } from '#api/route.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { notificationView } from '#shared/notification/notification.ts';

/** One notification; looking at it does not mark it read. */
export async function showNotification(deps: NotificationDeps, call: Call): Promise<Reply | Rejection> {
  const found = await visibleTo(deps, call, 'role');
  return isRejection(found) ? found : { status: 200, data: { notification: notificationView(found) } };
}
