import { callerOf, ownerIn, type Scope } from '#api/notification/caller.ts';
import type { NotificationDeps } from '#api/notification/deps.ts';
import { pagedData, pageOf } from '#api/notification/page.ts';
import type { Call, Reply } from '#api/route.ts';
import { listNotifications } from '#infra/mongo/notification/inbox.ts';
import type { ListQuery } from '#shared/generated/notification.ts';
import { notificationView } from '#shared/notification/notification.ts';

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
