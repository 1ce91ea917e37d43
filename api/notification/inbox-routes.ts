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
  const list = [{ status: 200, schema: 'notification/list-reply', description: 'Newest first' }];
  const updated = [{ status: 200, schema: 'notification/updated-reply', description: 'How many were unread' }];
  const mine: Route['errors'] = ['NOTIFICATION_NOT_FOUND', 'FORBIDDEN'];

  return [
    {
      method: 'GET',
      path: '/v1/notifications',
      operation: 'listNotifications',
      summary: "The caller's inbox; for an ADMIN one user's or everybody's",
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
      summary: "The caller's inbox, live: server-sent events with absolute counts",
      guards: anybody,
      headers: [
        {
          name: 'last-event-id',
          required: false,
          description: 'Id of the last event of an earlier stream: what came since is told first',
        },
      ],
      replies: [{ status: 200, schema: 'notification/inbox-stream', description: 'Open until either side ends it' }],
      errors: ['RATE_LIMITED'],
      handle: (call) => streamInbox(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/notifications/read-all',
      operation: 'markAllRead',
      summary: "Mark the caller's own notifications read",
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
      summary: "Delete the caller's own notifications",
      guards: anybody,
      body: NO_FIELDS,
      replies: [{ status: 200, schema: 'notification/deleted-reply', description: 'How many there were' }],
      errors: [],
      handle: (call) => deleteEverything(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/notifications/preferences',
      operation: 'readPreferences',
      summary: 'What the caller wants to be told',
      guards: anybody,
      replies: [{ status: 200, schema: 'notification/preferences', description: 'As it is set' }],
      errors: [],
      handle: (call) => showPreferences(deps, call),
    },
    {
      method: 'PATCH',
      path: '/v1/notifications/preferences',
      operation: 'changePreferences',
      summary: 'Disable or enable types, or be left alone for a while',
      guards: anybody,
      body: { schema: 'notification/preferences-patch', maxBytes: SMALL_BODY, moreFaults: preferencesFaults },
      replies: [{ status: 200, schema: 'notification/preferences', description: 'Merged' }],
      errors: [],
      handle: (call) => changePreferences(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/notifications/:notificationId',
      operation: 'readNotification',
      summary: 'One notification',
      guards: anybody,
      replies: one('It stays as read or unread as it was'),
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
      replies: one('Read; the first time stays'),
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
      replies: one('As it was last'),
      errors: mine,
      handle: (call) => deleteOneNotification(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/parent/alerts',
      operation: 'listParentAlerts',
      summary: "The caller's own alerts",
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
      summary: "Mark the caller's own alerts read",
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
      replies: one('Read; the first time stays'),
      errors: mine,
      handle: (call) => markOneRead(deps, call, 'own'),
    },
    {
      method: 'GET',
      path: '/v1/delivery-attempts',
      operation: 'listDeliveryAttempts',
      summary: "Tries to deliver the caller's notifications; for an ADMIN anybody's",
      guards: anybody,
      query: 'notification/delivery-attempt-query',
      replies: [{ status: 200, schema: 'notification/delivery-attempt-list', description: 'Newest first' }],
      errors: [],
      handle: (call) => showDeliveryAttempts(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/admin/support/notification-summary',
      operation: 'summarizeSupport',
      summary: 'What this service knows of support',
      guards: actors('ADMIN'),
      replies: [{ status: 200, schema: 'notification/support-summary', description: 'Counts, and the newest' }],
      errors: [],
      handle: () => showSupportSummary(deps),
    },
  ];
}
