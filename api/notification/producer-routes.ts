import { LARGE_BODY, type Route, SMALL_BODY, type Tag } from '#api/route.ts';
import { batchFaults, CREATORS, eventFaults, PRODUCERS, WEAK_TOPIC_SENDER } from '#shared/notification/event.ts';
import { reportedTopicFaults, weakTopicFaults } from '#shared/notification/weak-topic.ts';
import { recordDeliveryAttempt } from './deliveries.ts';
import type { NotificationDeps } from './deps.ts';
import { actors, adminOr, DELIVERIES, senders } from './door-guards.ts';
import {
  createBatch,
  createOneNotification,
  raiseWeakTopic,
  receiveEvent,
  receiveWeakTopic,
  storeSnapshot,
} from './intake.ts';

const CREATION: Tag = {
  name: 'Notification: producers',
  description: 'Services, admins and teachers create notifications for recipients that they have resolved.',
};

/** Routes of the admins and services that create notifications. */
export function producerRoutes(deps: NotificationDeps): Route[] {
  const creator = adminOr(deps, CREATORS);
  const producer = adminOr(deps, PRODUCERS);
  const intake = [
    { status: 201, schema: 'notification/intake-reply', description: 'Stored event and its notifications' },
    {
      status: 200,
      schema: 'notification/intake-reply',
      description: 'Original event of a replay; nothing was created',
    },
  ];
  const weakTopic = {
    method: 'POST',
    replies: intake,
  } satisfies Partial<Route>;

  return [
    {
      method: 'POST',
      path: '/v1/notifications',
      operation: 'createNotification',
      summary: 'Create one notification for a resolved recipient',
      description:
        'Creates one notification, unless the preferences of the recipient suppress it: the reply is then 200 with the reason. The route has no key, so a repeat creates another notification; send an event where a repeat must be harmless.',
      tag: CREATION,
      guards: creator,
      body: { schema: 'notification/create-request', maxBytes: SMALL_BODY },
      replies: [
        { status: 201, schema: 'notification/create-reply', description: 'Created notification' },
        {
          status: 200,
          schema: 'notification/create-reply',
          description: 'Suppression by the preferences of the recipient',
        },
      ],
      errors: [],
      handle: (call) => createOneNotification(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/notifications/batch',
      operation: 'createBatch',
      summary: 'Create notifications for many resolved recipients, all or none',
      description:
        'Creates up to 10,000 notifications in one commit. With an `event` that has `sourceService` and `sourceEventId`, that pair is the key for ever: a repeat returns 200 with the first ids and creates nothing. Without the pair a repeat creates all of them again.',
      tag: CREATION,
      guards: creator,
      body: { schema: 'notification/batch-request', maxBytes: LARGE_BODY, moreFaults: batchFaults },
      replies: [
        { status: 201, schema: 'notification/batch-reply', description: 'Ids of the created notifications' },
        {
          status: 200,
          schema: 'notification/batch-reply',
          description: 'Original ids of a replay; nothing was created',
        },
      ],
      errors: ['NOTIFICATION_SOURCE_MISMATCH'],
      handle: (call) => createBatch(deps, call),
    },
    {
      method: 'PUT',
      path: '/v1/notifications/:notificationId/snapshot',
      operation: 'putSnapshot',
      summary: 'Store a copy of a notification of another system',
      description:
        'Stores a notification as another system has it, under the id of that system; no preference suppresses it and no channel delivers it. The id is the key: a repeat returns 200 with the same notification. Fields that the body does not name stay.',
      tag: CREATION,
      params: { notificationId: 'Id of the notification in the other system' },
      guards: producer,
      body: { schema: 'notification/snapshot-request', maxBytes: SMALL_BODY },
      replies: [
        { status: 201, schema: 'notification/notification-reply', description: 'Notification with a new id' },
        {
          status: 200,
          schema: 'notification/notification-reply',
          description: 'Notification that was stored already, updated',
        },
      ],
      errors: ['NOTIFICATION_OWNER_MISMATCH', 'PERSON_ERASED'],
      handle: (call) => storeSnapshot(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/delivery-attempts',
      operation: 'recordDeliveryAttempt',
      summary: 'Record a delivery attempt of another service',
      description:
        'Stores a delivery attempt that the caller made over a channel of its own, for diagnosis; it changes no inbox. The route has no key, so a repeat is stored again.',
      tag: DELIVERIES,
      guards: producer,
      body: { schema: 'notification/delivery-attempt-request', maxBytes: SMALL_BODY },
      replies: [
        { status: 201, schema: 'notification/delivery-attempt-reply', description: 'Recorded delivery attempt' },
      ],
      errors: ['PERSON_ERASED'],
      handle: (call) => recordDeliveryAttempt(deps, call),
    },
    {
      ...weakTopic,
      path: '/v1/alerts/weak-topic',
      operation: 'createWeakTopicAlert',
      summary: "Alert a student's parents to a weak topic",
      description:
        'Creates one alert for each parent of a student, on behalf of a teacher or an admin, whom an e-mail names. Name and topic are one line without the address of a page. The source pair and the caller are the key for ever: a repeat returns 200 with the first event and creates nothing. A caller sends at most 60 alerts in an hour.',
      tag: CREATION,
      guards: actors('ADMIN', 'TEACHER'),
      body: {
        schema: 'notification/weak-topic-alert-request',
        maxBytes: SMALL_BODY,
        moreFaults: reportedTopicFaults,
      },
      errors: ['RATE_LIMITED', 'PERSON_ERASED'],
      handle: (call) => raiseWeakTopic(deps, call),
    },
    {
      ...weakTopic,
      path: '/v1/events/weak-topic-alert',
      operation: 'takeWeakTopicAlert',
      summary: 'Internal: receive a weak-topic alert from the BFF',
      description:
        'Creates one alert for each parent of a student, for a finding of a service. The source pair is the key for ever: a repeat returns 200 with the first event and creates nothing.',
      tag: CREATION,
      guards: senders(deps, [WEAK_TOPIC_SENDER]),
      body: { schema: 'notification/weak-topic-request', maxBytes: LARGE_BODY, moreFaults: weakTopicFaults },
      errors: [],
      handle: (call) => receiveWeakTopic(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/events/notification',
      operation: 'takeNotificationEvent',
      summary: 'Internal: receive an event of a producer and create its notifications',
      description:
        'Stores an event of a producer and creates its notifications in one commit. The pair `sourceService` and `sourceEventId` is the key for ever: a repeat returns 200 with the first event, `created: 0` and `replayed: true`. Without the pair a repeat creates everything again.',
      tag: CREATION,
      guards: senders(deps, PRODUCERS),
      body: { schema: 'notification/intake-request', maxBytes: LARGE_BODY, moreFaults: eventFaults },
      replies: intake,
      errors: ['NOTIFICATION_SOURCE_MISMATCH'],
      handle: (call) => receiveEvent(deps, call),
    },
  ];
}
