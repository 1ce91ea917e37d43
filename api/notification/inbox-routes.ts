import { NO_FIELDS, type Route, SMALL_BODY } from '#api/route.ts';
import { preferencesFaults } from '#shared/notification/preferences.ts';
import { showDeliveryAttempts, showSupportSummary } from './deliveries.ts';
import type { NotificationDeps } from './deps.ts';
import { actors, users } from './door-guards.ts';
import {
  changePreferences,
  deleteEverything,
  deleteOneNotification,
  listInbox,
  markEverythingRead,
  markOneRead,
  showNotification,
  showPreferences,
} from './inbox.ts';
import { streamInbox } from './stream-inbox.ts';

/** Routes of users and their notifications, called through the gateway. */
export function inboxRoutes(deps: NotificationDeps): Route[] {
  const anybody = users();
  const parent = users('PARENT', 'ADMIN');
  const one = (description: string) => [{ status: 200, schema: 'notification/notification-reply', description }];
  const list = [{ status: 200, schema: 'notification/list-reply', description: 'Page of notifications, newest first' }];
  const updated = [
    { status: 200, schema: 'notification/updated-reply', description: 'Number of notifications marked read' },
  ];
  const mine: Route['errors'] = ['NOTIFICATION_NOT_FOUND', 'FORBIDDEN'];

  return [
    {
      method: 'GET',
      path: '/v1/notifications',
      operation: 'listNotifications',
      summary: "List the caller's notifications; an ADMIN lists those of one user or of all users",
      guards: anybody,
      query: 'notification/list-query',
      replies: list,
      errors: [],
      handle: (call) => listInbox(deps, call, 'role'),
    },
    {
      method: 'GET',
      path: '/v1/notifications/stream',
      operation: 'streamInbox',
      summary: "Stream the caller's inbox as server-sent events",
      guards: anybody,
      headers: [
        {
          name: 'last-event-id',
          required: false,
          description: 'Id of the last event of an earlier stream; the stream begins with the notifications since then',
        },
      ],
      replies: [
        {
          status: 200,
          schema: 'notification/inbox-stream',
          description: 'Event stream with absolute counts, open until either side ends it',
        },
      ],
      errors: ['RATE_LIMITED'],
      handle: (call) => streamInbox(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/notifications/read-all',
      operation: 'markAllRead',
      summary: "Mark all of the caller's own notifications read",
      guards: anybody,
      body: NO_FIELDS,
      replies: updated,
      errors: [],
      handle: (call) => markEverythingRead(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/notifications/delete-all',
      operation: 'deleteAll',
      summary: "Delete all of the caller's own notifications",
      guards: anybody,
      body: NO_FIELDS,
      replies: [{ status: 200, schema: 'notification/deleted-reply', description: 'Number of notifications deleted' }],
      errors: [],
      handle: (call) => deleteEverything(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/notifications/preferences',
      operation: 'readPreferences',
      summary: 'Get the notification preferences of the caller',
      guards: anybody,
      replies: [
        { status: 200, schema: 'notification/preferences', description: 'Preferences that the caller has set' },
      ],
      errors: [],
      handle: (call) => showPreferences(deps, call),
    },
    {
      method: 'PATCH',
      path: '/v1/notifications/preferences',
      operation: 'changePreferences',
      summary: 'Enable or disable notification types, or mute notifications until a time',
      guards: anybody,
      body: { schema: 'notification/preferences-patch', maxBytes: SMALL_BODY, moreFaults: preferencesFaults },
      replies: [{ status: 200, schema: 'notification/preferences', description: 'Preferences after the change' }],
      errors: [],
      handle: (call) => changePreferences(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/notifications/:notificationId',
      operation: 'readNotification',
      summary: 'Get one notification',
      guards: anybody,
      replies: one('Notification; reading it here does not mark it read'),
      errors: mine,
      handle: (call) => showNotification(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/notifications/:notificationId/read',
      operation: 'markRead',
      summary: 'Mark one notification read',
      guards: anybody,
      body: NO_FIELDS,
      replies: one('Notification, with the time of its first read'),
      errors: mine,
      handle: (call) => markOneRead(deps, call, 'role'),
    },
    {
      method: 'POST',
      path: '/v1/notifications/:notificationId/delete',
      operation: 'deleteNotification',
      summary: 'Delete one notification',
      guards: anybody,
      body: NO_FIELDS,
      replies: one('Deleted notification'),
      errors: mine,
      handle: (call) => deleteOneNotification(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/parent/alerts',
      operation: 'listParentAlerts',
      summary: "List the caller's own alerts",
      guards: parent,
      query: 'notification/list-query',
      replies: list,
      errors: [],
      handle: (call) => listInbox(deps, call, 'own'),
    },
    {
      method: 'POST',
      path: '/v1/parent/alerts/read-all',
      operation: 'markAllParentAlertsRead',
      summary: "Mark all of the caller's own alerts read",
      guards: parent,
      body: NO_FIELDS,
      replies: updated,
      errors: [],
      handle: (call) => markEverythingRead(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/parent/alerts/:notificationId/read',
      operation: 'markParentAlertRead',
      summary: "Mark one of the caller's own alerts read",
      guards: parent,
      body: NO_FIELDS,
      replies: one('Notification, with the time of its first read'),
      errors: mine,
      handle: (call) => markOneRead(deps, call, 'own'),
    },
    {
      method: 'GET',
      path: '/v1/delivery-attempts',
      operation: 'listDeliveryAttempts',
      summary: "List delivery attempts of the caller's notifications; an ADMIN lists those of all users",
      guards: anybody,
      query: 'notification/delivery-attempt-query',
      replies: [
        {
          status: 200,
          schema: 'notification/delivery-attempt-list',
          description: 'Page of delivery attempts, newest first',
        },
      ],
      errors: [],
      handle: (call) => showDeliveryAttempts(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/admin/support/notification-summary',
      operation: 'summarizeSupport',
      summary: 'Summarize notifications, events and delivery attempts of support types',
      guards: actors('ADMIN'),
      replies: [
        { status: 200, schema: 'notification/support-summary', description: 'Counts and the newest notifications' },
      ],
      errors: [],
      handle: () => showSupportSummary(deps),
    },
  ];
}
