import type { Scope } from '#api/notification/caller.ts';
import type { NotificationDeps } from '#api/notification/deps.ts';
import { visibleTo } from '#api/notification/visible-to.ts';
import type { Call, Reply } from '#api/route.ts';
import { markRead } from '#infra/mongo/notification/inbox-changes.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { notificationView } from '#shared/notification/notification.ts';

/** Marks one notification read; a second time changes nothing. */
export async function markOneRead(deps: NotificationDeps, call: Call, scope: Scope): Promise<Reply | Rejection> {
  const found = await visibleTo(deps, call, scope);
  if (isRejection(found)) return found;
  const row = await markRead(deps.mongo, found._id);
  if (row === null) return { rejected: 'NOTIFICATION_NOT_FOUND' };
  deps.wake([row.userId]);
  return { status: 200, data: { notification: notificationView(row) } };
}
