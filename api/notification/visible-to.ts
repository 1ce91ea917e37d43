import type { Call } from '#api/route.ts';
import { findNotification } from '#infra/mongo/notification/inbox.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import type { Notification } from '#shared/notification/notification.ts';
import { callerOf, ownerIn, type Scope } from './caller.ts';
import type { NotificationDeps } from './deps.ts';

/** The notification that a path names, where this caller may touch it. */
export async function visibleTo(
  deps: NotificationDeps,
  call: Pick<Call, 'params' | 'identity'>,
  scope: Scope,
): Promise<Notification | Rejection> {
  const row = await findNotification(deps.mongo, call.params.notificationId ?? '');
  if (row === null) return { rejected: 'NOTIFICATION_NOT_FOUND' };
  const owner = ownerIn(scope, callerOf(call.identity));
  return owner === null || row.userId === owner ? row : { rejected: 'FORBIDDEN' };
}
