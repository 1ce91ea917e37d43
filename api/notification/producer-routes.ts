import { type BodyRule, LARGE_BODY, type Route, SMALL_BODY } from '#api/route.ts';
import { batchFaults, eventFaults, PRODUCERS, WEAK_TOPIC_SENDER } from '#shared/notification/event.ts';
import { weakTopicFaults } from '#shared/notification/weak-topic.ts';
import { recordDeliveryAttempt } from './deliveries.ts';
import type { NotificationDeps } from './deps.ts';
import { actors, adminOrProducer, senders } from './door-guards.ts';
import {
  createBatch,
  createOneNotification,
  raiseWeakTopic,
  receiveEvent,
  receiveWeakTopic,
  storeSnapshot,
} from './intake.ts';

/** Routes of the admins and services that create notifications. */
export function producerRoutes(deps: NotificationDeps): Route[] {
  const maker = adminOrProducer(deps);
  const intake = [
    { status: 201, schema: 'notification/intake-reply', description: 'Stored event and its notifications' },
    {
      status: 200,
      schema: 'notification/intake-reply',
      description: 'Original event of a replay; nothing was created',
    },
  ];
  const weakTopicBody = (maxBytes: number): BodyRule => ({
    schema: 'notification/weak-topic-request',
    maxBytes,
    moreFaults: weakTopicFaults,
  });
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
      guards: maker,
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
      guards: maker,
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
      guards: maker,
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
      guards: maker,
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
      guards: actors('ADMIN', 'TEACHER'),
      body: weakTopicBody(SMALL_BODY),
      errors: ['RATE_LIMITED', 'PERSON_ERASED'],
      handle: (call) => raiseWeakTopic(deps, call),
    },
    {
      ...weakTopic,
      path: '/v1/events/weak-topic-alert',
      operation: 'takeWeakTopicAlert',
      summary: 'Internal: receive a weak-topic alert from the BFF',
      guards: senders(deps, [WEAK_TOPIC_SENDER]),
      body: weakTopicBody(LARGE_BODY),
      errors: [],
      handle: (call) => receiveWeakTopic(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/events/notification',
      operation: 'takeNotificationEvent',
      summary: 'Internal: receive an event of a producer and create its notifications',
      guards: senders(deps, PRODUCERS),
      body: { schema: 'notification/intake-request', maxBytes: LARGE_BODY, moreFaults: eventFaults },
      replies: intake,
      errors: ['NOTIFICATION_SOURCE_MISMATCH'],
      handle: (call) => receiveEvent(deps, call),
    },
  ];
}
