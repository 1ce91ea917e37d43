import type { Call, Reply } from '#api/route.ts';
import {
  findNotification,
  findNotificationOfAnyUser,
  findPosition,
  listNotifications,
} from '#infra/mongo/notification/inbox.ts';
import { deleteAll, deleteNotification, markAllRead, markRead } from '#infra/mongo/notification/inbox-changes.ts';
import { findPreferences, patchPreferences } from '#infra/mongo/notification/preferences.ts';
import { eraseStoredMeanwhile } from '#infra/mongo/person/stored-meanwhile.ts';
import type { ListQuery, PreferencesPatch } from '#shared/generated/notification.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { type Notification, notificationView } from '#shared/notification/notification.ts';
import {
  preferencesFaults,
  preferencesView,
  readPreferencesPatch,
  TOO_MANY_TYPES,
} from '#shared/notification/preferences.ts';
import { callerOf, type NotificationDeps, ownerIn, pagedData, pageOf, type Scope } from './deps.ts';

/**
 * Returns a page of the caller's notifications. With `role`, an ADMIN gets those of one user or of all users. Rejects `before` if it names
 * none of these.
 */
export async function listInbox(
  deps: NotificationDeps,
  call: Call<unknown, ListQuery>,
  scope: Scope,
): Promise<Reply | Rejection> {
  const { query } = call;
  const page = pageOf(query);
  if (query.before !== undefined && page.page !== 1) {
    return { rejected: 'VALIDATION_FAILED', details: [{ path: '/page', message: 'must be 1 beside `before`' }] };
  }
  const wanted = {
    userId: ownerIn(scope, callerOf(call.identity)) ?? query.userId ?? null,
    organizationId: query.organizationId ?? null,
    filter: query.filter ?? 'ALL',
    // Every text contains the empty one, so it filters nothing.
    q: query.q === undefined || query.q === '' ? null : query.q,
  };
  const after =
    query.before === undefined
      ? undefined
      : await findPosition(deps.mongo, { _id: query.before, userId: wanted.userId });
  if (after === null) return { rejected: 'NOTIFICATION_NOT_FOUND' };
  const { rows, total, unread } = await listNotifications(deps.mongo, wanted, {
    ...page,
    ...(after === undefined ? {} : { after }),
  });
  return { status: 200, data: { ...pagedData(rows.map(notificationView), page, total), unreadCount: unread } };
}

/** Returns one notification without marking it read. Rejects one of another user, except for an ADMIN. */
export async function showNotification(deps: NotificationDeps, call: Call): Promise<Reply | Rejection> {
  const found = await visibleTo(deps, call, 'role');
  return isRejection(found) ? found : { status: 200, data: { notification: notificationView(found) } };
}

/** Marks one notification read and returns it. Repeating the call changes nothing. */
export async function markOneRead(deps: NotificationDeps, call: Call, scope: Scope): Promise<Reply | Rejection> {
  const found = await visibleTo(deps, call, scope);
  if (isRejection(found)) return found;
  const row = await markRead(deps.mongo, found);
  if (row === null) return { rejected: 'NOTIFICATION_NOT_FOUND' };
  deps.notifyStreams([row.userId]);
  return { status: 200, data: { notification: notificationView(row) } };
}

/** Hides one notification permanently. A second call gets NOTIFICATION_NOT_FOUND. */
export async function deleteOneNotification(deps: NotificationDeps, call: Call): Promise<Reply | Rejection> {
  const found = await visibleTo(deps, call, 'role');
  if (isRejection(found)) return found;
  const row = await deleteNotification(deps.mongo, found);
  if (row === null) return { rejected: 'NOTIFICATION_NOT_FOUND' };
  deps.notifyStreams([row.userId]);
  return { status: 200, data: { notification: notificationView(row) } };
}

/** Returns the notification in the path if this caller may access it, otherwise a rejection. */
async function visibleTo(
  deps: NotificationDeps,
  call: Pick<Call, 'params' | 'identity'>,
  scope: Scope,
): Promise<Notification | Rejection> {
  const { notificationId: _id = '' } = call.params;
  const owner = ownerIn(scope, callerOf(call.identity));
  const own = owner === null ? null : await findNotification(deps.mongo, { _id, userId: owner });
  if (own !== null) return own;
  const row = await findNotificationOfAnyUser(deps.mongo, _id);
  if (row === null) return { rejected: 'NOTIFICATION_NOT_FOUND' };
  return owner === null || row.userId === owner ? row : { rejected: 'FORBIDDEN' };
}

/** Marks all notifications of the caller read. An ADMIN affects only its own. */
export async function markEverythingRead(deps: NotificationDeps, call: Call): Promise<Reply> {
  const { id } = callerOf(call.identity);
  const updated = await markAllRead(deps.mongo, id, call.signal);
  deps.notifyStreams([id]);
  return { status: 200, data: { updated } };
}

/** Deletes all notifications of the caller. An ADMIN affects only its own. */
export async function deleteEverything(deps: NotificationDeps, call: Call): Promise<Reply> {
  const { id } = callerOf(call.identity);
  const deleted = await deleteAll(deps.mongo, id, call.signal);
  deps.notifyStreams([id]);
  return { status: 200, data: { deleted } };
}

/** Returns the preferences that the caller has set. */
export async function showPreferences(deps: NotificationDeps, call: Call): Promise<Reply> {
  const stored = await findPreferences(deps.mongo, callerOf(call.identity).id);
  return { status: 200, data: preferencesView(stored) };
}

/** Merges changes into the caller's preferences; rejects them past the limit of types. */
export async function changePreferences(
  deps: NotificationDeps,
  call: Call<PreferencesPatch>,
): Promise<Reply | Rejection> {
  const details = preferencesFaults(call.body);
  if (details.length > 0) return { rejected: 'VALIDATION_FAILED', details };
  const change = readPreferencesPatch(call.body);
  const { id } = callerOf(call.identity);
  const patched = await patchPreferences(deps.mongo, id, change);
  // A session may outlive the erasure of its user for some minutes.
  await eraseStoredMeanwhile(deps.mongo, [id], { now: deps.now() });
  if (patched.kind === 'full') return { rejected: 'VALIDATION_FAILED', details: [TOO_MANY_TYPES] };
  return { status: 200, data: preferencesView(patched.preferences) };
}
