import type { Stamped } from '#infra/mongo/guarded-update.ts';
import type {
  AlertCallsRow,
  NotificationRow,
  PreferencesRow,
  PushSubscriptionRow,
  SnapshotIdRow,
  SuppressionRow,
} from '#infra/mongo/notification/collections.ts';
import type { Command } from '#shared/kernel/command.ts';
import type { DeliveryBody } from '#shared/notification/commands.ts';
import type { DeliveryAttempt } from '#shared/notification/delivery.ts';
import type { NotificationEvent } from '#shared/notification/event.ts';
import type { FanOut } from '#shared/notification/fan-out.ts';
import { MESSAGE_FIELDS } from './operation.ts';
import { byPerson, declareRows, type Link, updated } from './rules.ts';

/** A notification about the person belongs to another one: whether that one has read it is not shown. */
const ABOUT: Omit<Link, 'by'> = {
  field: 'entityId',
  erase: 'delete',
  shows: '_id organizationId type title content preferenceType entity entityId data sourceEventRef isSupport createdAt',
};

const OF_NOTIFICATIONS: readonly Link[] = [
  byPerson('userId'),
  { by: 'person', ...ABOUT },
  { by: 'attempt', ...ABOUT },
  updated('actorId', () => ({ $set: { actorId: null } }), ''),
];

/** Facts of an event that name no person. Its recipients and its actor may be other people, such as the parents of a student. */
const EVENT_FACTS =
  `_id sourceService sourceEventId replayable replayableByActor type preferenceType entity organizationId
  created suppressedCounts isSupport createdAt` as const;
const ON_EVENT = `${EVENT_FACTS} entityId`;

/** An event about the person keeps its replay key, so that a repeat creates nothing. Everything about the person leaves it. */
const FORGET = () => ({ $set: { entityId: null, targetUserIds: null, payload: null, suppressed: [] } });

/** The entries of a list whose value at a place is not this id. */
function without(id: string, input: string, place: string) {
  return { $filter: { input, cond: { $ne: [place, { $literal: id }] } } };
}

/** The payload of an event that has other recipients. Without one, the payload can only be about the person. */
const UNLESS_ALONE = { $cond: [{ $eq: [{ $size: '$targetUserIds' }, 0] }, null, '$payload'] };

const OF_EVENTS: readonly Link[] = [
  updated('entityId', FORGET, `${ON_EVENT} payload`),
  { ...updated('entityId', FORGET, `${ON_EVENT} payload`), by: 'attempt' },
  updated(
    'targetUserIds',
    ({ id }) => [
      { $set: { targetUserIds: without(id, '$targetUserIds', '$$this') } },
      { $set: { payload: UNLESS_ALONE } },
    ],
    ON_EVENT,
  ),
  updated(
    'suppressed.userId',
    ({ id }) => [{ $set: { suppressed: without(id, '$suppressed', '$$this.userId') } }],
    ON_EVENT,
  ),
  updated('actorId', ({ pseudonym }) => ({ $set: { actorId: pseudonym } }), `${ON_EVENT} actorId`),
];

/** An id without its notification would refuse every later snapshot; a notification without its id would allow a second one. */
const OF_SNAPSHOT_IDS: Link = { by: 'notification', field: '_id', erase: 'delete with its row', shows: '' };

/**
 * Notifications about a person are deleted from every inbox, found by `entityId`: the person's id, or one of an attempt. The service
 * cannot know what a producer has written into the text of any other notification.
 */
export const NOTIFICATION_FIELDS = {
  notifications: declareRows<NotificationRow>()(OF_NOTIFICATIONS, {
    deleted: `_id userId organizationId type title content preferenceType entity entityId data place isRead readAt isSupport
      fanOutId ordinal createdAt deletedAt`,
    removed: 'actorId',
    stays: 'sourceEventRef',
    technical: 'stamp',
    kept: { sourceEventRef: 'repeats the replay key of the event in the notifications of other recipients' },
  }),
  notification_snapshot_ids: declareRows<SnapshotIdRow>()([OF_SNAPSHOT_IDS], { deleted: '_id' }),
  notification_events: declareRows<NotificationEvent>()(OF_EVENTS, {
    pseudonym: 'actorId',
    removed: 'entityId targetUserIds payload suppressed',
    stays: EVENT_FACTS,
    kept: { sourceEventId: 'the replay key: without it, a repeat of the event would notify again' },
  }),
  notification_suppressions: declareRows<SuppressionRow>()([byPerson('userId')], {
    deleted: '_id userId reason type requestId at',
  }),
  notification_fan_outs: declareRows<FanOut>()([], {
    technical: '_id state source rows staged stageBy publishedAt',
    kept: { source: 'repeats the replay key of the event; the row is deleted within minutes' },
  }),
  notification_preferences: declareRows<PreferencesRow>()([byPerson('_id')], {
    deleted: '_id enabledTypes mutedUntil channels updatedAt',
    technical: 'stamp',
  }),
  notification_push_subscriptions: declareRows<PushSubscriptionRow>()([byPerson('userId')], {
    deleted: '_id userId createdAt',
    secret: 'endpoint p256dh auth',
  }),
  notification_deliveries: declareRows<Command<DeliveryBody> & Stamped>()(
    [{ by: 'notification', field: 'subject', erase: 'delete' }],
    MESSAGE_FIELDS,
  ),
  notification_delivery_attempts: declareRows<DeliveryAttempt>()(
    [byPerson('userId'), { by: 'notification', field: 'notificationId', erase: 'delete', shows: '' }],
    {
      deleted: `_id notificationId userId organizationId channel provider status attempt providerId nextRetryAt error
        metadata isSupport createdAt updatedAt`,
    },
  ),
  notification_alert_calls: declareRows<AlertCallsRow>()([byPerson('_id')], {
    deleted: '_id calls lastAt',
    technical: 'stamp',
  }),
} as const;
