import type { ListQuery } from '../../../shared/generated/notification.ts';
import { listNotifications } from '../../../shared/infra/mongo/notification/list-notifications.ts';
import { notificationView } from '../../../shared/notification/notification-view.ts';
import type { Call, Reply } from '../../route.ts';
import { callerOf, ownerIn, type Scope } from '../caller.ts';
import type { NotificationDeps } from '../deps.ts';
import { pagedData, pageOf } from '../page.ts';

/** A page of the caller's notifications; an ADMIN in its role sees one user's, or everybody's. */
export async function listInbox(deps: NotificationDeps, call: Call<unknown, ListQuery>, scope: Scope): Promise<Reply> {
  const { query } = call;
  const page = pageOf(query);
  const wanted = {
    userId: ownerIn(scope, callerOf(call.identity)) ?? query.userId ?? null,
    organizationId: query.organizationId ?? null,
    filter: query.filter ?? 'ALL',
    // An empty text is in every text.
    q: query.q === undefined || query.q === '' ? null : query.q,
  };
  const { rows, total, unread } = await listNotifications(deps.mongo, wanted, page);
  return { status: 200, data: { ...pagedData(rows.map(notificationView), page, total), unreadCount: unread } };
}
