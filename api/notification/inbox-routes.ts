import { NO_FIELDS, type Route, SMALL_BODY, type Tag } from '#api/route.ts';
import { ADMIN_SERVICE } from '#shared/notification/event.ts';
import { preferencesFaults } from '#shared/notification/preferences.ts';
import { showDeliveryAttempts, showSupportSummary } from './deliveries.ts';
import type { NotificationDeps } from './deps.ts';
import { adminOr, DELIVERIES, PREFERENCES, users, usersAs } from './door-guards.ts';
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

const INBOX: Tag = {
  name: 'Notification: inbox',
  description: 'Notifications of a user: list, live stream, read and delete.',
};
const PARENTS: Tag = { name: 'Notification: parent alerts', description: "The inbox of a parent's client." };
const SUPPORT: Tag = { name: 'Notification: support', description: 'Counts of support notifications, for admins.' };

const NOTIFICATION = { notificationId: 'Id of the notification' };

/** Routes of users and their notifications, called through the gateway. */
export function inboxRoutes(deps: NotificationDeps): Route[] {
  const anybody = users();
  const parent = usersAs('PARENT', 'ADMIN');
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
      description:
        "Returns a page of the caller's inbox, newest first, with the number of unread notifications. An ADMIN reads every inbox, or that of `userId`. Read on with `before`: numbered pages shift while notifications arrive or are deleted. Follow the stream instead of polling.",
      tag: INBOX,
      guards: anybody,
      query: 'notification/list-query',
      replies: list,
      errors: ['NOTIFICATION_NOT_FOUND'],
      handle: (call) => listInbox(deps, call, 'role'),
    },
    {
      method: 'GET',
      path: '/v1/notifications/stream',
      operation: 'streamInbox',
      summary: "Stream the caller's inbox as server-sent events",
      description:
        "Sends the caller's inbox as server-sent events: `snapshot` with the unread count first, then `notification` and `counts` as they change, `heartbeat` every 15 s. A stream ends after ten minutes; resume it with `Last-Event-ID`, and it sends what was missed. An actor has five streams in a process.",
      tag: INBOX,
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
      description:
        "Marks every notification of the caller's own inbox read that exists when the call begins, and returns their number. A repeat returns the number of those that have arrived since.",
      tag: INBOX,
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
      description:
        "Deletes every notification of the caller's own inbox for good that exists when the call begins, and returns their number. A repeat returns the number of those that have arrived since.",
      tag: INBOX,
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
      description:
        'Returns which types the caller has enabled or disabled, and until when notifications are muted. A user who has set nothing receives everything.',
      tag: PREFERENCES,
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
      description:
        'Changes the named types and the mute, and returns all preferences. Fields that the body does not name stay. A repeat changes nothing. Preferences decide about new notifications only.',
      tag: PREFERENCES,
      guards: anybody,
      body: { schema: 'notification/preferences-patch', maxBytes: SMALL_BODY, moreFaults: preferencesFaults },
      replies: [{ status: 200, schema: 'notification/preferences', description: 'Preferences after the change' }],
      errors: [],
      handle: (call) => changePreferences(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/notifications/:notificationId',
      params: NOTIFICATION,
      operation: 'readNotification',
      summary: 'Get one notification',
      description: 'Returns one notification of the caller, or for an ADMIN of any user. It stays unread.',
      tag: INBOX,
      guards: anybody,
      replies: one('Notification; reading it here does not mark it read'),
      errors: mine,
      handle: (call) => showNotification(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/notifications/:notificationId/read',
      params: NOTIFICATION,
      operation: 'markRead',
      summary: 'Mark one notification read',
      description: 'Marks one notification read and returns it. A repeat returns the same: the first `readAt` stays.',
      tag: INBOX,
      guards: anybody,
      body: NO_FIELDS,
      replies: one('Notification, with the time of its first read'),
      errors: mine,
      handle: (call) => markOneRead(deps, call, 'role'),
    },
    {
      method: 'POST',
      path: '/v1/notifications/:notificationId/delete',
      params: NOTIFICATION,
      operation: 'deleteNotification',
      summary: 'Delete one notification',
      description:
        'Deletes one notification for good and returns it as it was last. A repeat is 404 `NOTIFICATION_NOT_FOUND`: the first call has arrived.',
      tag: INBOX,
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
      description:
        "Returns a page of the caller's own inbox, of every type, newest first. It is the inbox of a parent under the path of a parent's client.",
      tag: PARENTS,
      guards: parent,
      query: 'notification/list-query',
      replies: list,
      errors: ['NOTIFICATION_NOT_FOUND'],
      handle: (call) => listInbox(deps, call, 'own'),
    },
    {
      method: 'POST',
      path: '/v1/parent/alerts/read-all',
      operation: 'markAllParentAlertsRead',
      summary: "Mark all of the caller's own alerts read",
      description:
        "Marks every notification of the caller's own inbox read, as read-all of the inbox does, and returns their number.",
      tag: PARENTS,
      guards: parent,
      body: NO_FIELDS,
      replies: updated,
      errors: [],
      handle: (call) => markEverythingRead(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/parent/alerts/:notificationId/read',
      params: NOTIFICATION,
      operation: 'markParentAlertRead',
      summary: "Mark one of the caller's own alerts read",
      description:
        "Marks one notification of the caller's own inbox read. A repeat returns the same: the first `readAt` stays.",
      tag: PARENTS,
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
      description:
        "Returns a page of delivery attempts of the caller's notifications, newest first; an ADMIN lists those of all users. They are diagnostic data and never change an inbox.",
      tag: DELIVERIES,
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
      description:
        'Counts notifications, events and delivery attempts of support types, with the newest notifications, for the queue of an admin.',
      tag: SUPPORT,
      guards: adminOr(deps, [ADMIN_SERVICE]),
      replies: [
        { status: 200, schema: 'notification/support-summary', description: 'Counts and the newest notifications' },
      ],
      errors: [],
      handle: () => showSupportSummary(deps),
    },
  ];
}
