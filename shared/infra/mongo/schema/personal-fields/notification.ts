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
import { COMMAND_FIELDS } from './command-fields.ts';
import { byPerson, type Declaration, type Link } from './rules.ts';

/** An event about the person keeps its replay key, so that a repeat creates nothing. Everything about the person leaves it. */
const FORGET = {
  update: () => ({ $set: { entityId: null, targetUserIds: null, payload: null, suppressed: [] } }),
} as const;
/** Ids of other people: the parents of a student. */
const OTHERS = ['targetUserIds', 'suppressed', 'actorId'] as const;

/** The recipients of an event other than this one. */
function without(id: string) {
  return { $filter: { input: '$targetUserIds', cond: { $ne: ['$$this', { $literal: id }] } } };
}

/** The suppressed recipients of an event other than this one. */
function othersSuppressed(id: string) {
  return { $filter: { input: '$suppressed', cond: { $ne: ['$$this.userId', { $literal: id }] } } };
}

/** The payload of an event that has other recipients. Without one, the payload can only be about the person. */
const UNLESS_ALONE = { $cond: [{ $eq: [{ $size: '$targetUserIds' }, 0] }, null, '$payload'] };

const ABOUT: Omit<Link, 'by'> = { field: 'entityId', erase: 'delete', omit: ['userId', 'actorId', 'stamp'] };

/**
 * Notifications about a person are deleted from every inbox, found by `entityId`: the person's id, or one of an attempt. The service
 * cannot know what a producer has written into the text of any other notification.
 */
export const NOTIFICATION_FIELDS = {
  notifications: {
    links: [
      byPerson('userId'),
      { by: 'person', ...ABOUT },
      { by: 'attempt', ...ABOUT },
      { by: 'person', field: 'actorId', erase: { update: () => ({ $set: { actorId: null } }) }, omit: 'all' },
    ],
    fields: {
      _id: 'with its row',
      userId: 'with its row',
      organizationId: 'with its row',
      type: 'with its row',
      title: 'with its row',
      content: 'with its row',
      preferenceType: 'with its row',
      actorId: 'removed',
      entity: 'with its row',
      entityId: 'with its row',
      data: 'with its row',
      sourceEventRef: { kept: 'repeats the replay key of the event in the notifications of other recipients' },
      place: 'with its row',
      isRead: 'with its row',
      readAt: 'with its row',
      isSupport: 'with its row',
      fanOutId: 'with its row',
      ordinal: 'with its row',
      createdAt: 'with its row',
      deletedAt: 'with its row',
      stamp: 'with its row',
    },
  } satisfies Declaration<NotificationRow>,
  notification_snapshot_ids: {
    // An id without its notification would refuse every later snapshot; a notification without its id would allow a second one.
    links: [{ by: 'notification', field: '_id', erase: 'delete with its row', omit: 'all' }],
    fields: { _id: 'with its row' },
  } satisfies Declaration<SnapshotIdRow>,
  notification_events: {
    links: [
      { by: 'person', field: 'entityId', erase: FORGET, omit: OTHERS },
      { by: 'attempt', field: 'entityId', erase: FORGET, omit: OTHERS },
      {
        by: 'person',
        field: 'targetUserIds',
        erase: { update: ({ id }) => [{ $set: { targetUserIds: without(id) } }, { $set: { payload: UNLESS_ALONE } }] },
        omit: [...OTHERS, 'payload'],
      },
      {
        by: 'person',
        field: 'suppressed.userId',
        erase: { update: ({ id }) => [{ $set: { suppressed: othersSuppressed(id) } }] },
        omit: [...OTHERS, 'payload'],
      },
      {
        by: 'person',
        field: 'actorId',
        erase: { update: ({ pseudonym }) => ({ $set: { actorId: pseudonym } }) },
        omit: ['targetUserIds', 'suppressed', 'payload'],
      },
    ],
    fields: {
      _id: 'no person',
      sourceService: 'no person',
      sourceEventId: { kept: 'the replay key: without it, a repeat of the event would notify again' },
      replayable: 'no person',
      replayableByActor: 'no person',
      type: 'no person',
      preferenceType: 'no person',
      entity: 'no person',
      entityId: 'removed',
      organizationId: 'no person',
      actorId: 'pseudonym',
      targetUserIds: 'removed',
      payload: 'removed',
      created: 'no person',
      suppressed: 'removed',
      suppressedCounts: 'no person',
      isSupport: 'no person',
      createdAt: 'no person',
    },
  } satisfies Declaration<NotificationEvent>,
  notification_suppressions: {
    links: [byPerson('userId')],
    fields: {
      _id: 'with its row',
      userId: 'with its row',
      reason: 'with its row',
      type: 'with its row',
      requestId: 'with its row',
      at: 'with its row',
    },
  } satisfies Declaration<SuppressionRow>,
  notification_fan_outs: {
    links: [],
    fields: {
      _id: 'no person',
      state: 'no person',
      source: { kept: 'repeats the replay key of the event; the row is deleted within minutes' },
      rows: 'no person',
      staged: 'no person',
      stageBy: 'no person',
      publishedAt: 'no person',
    },
  } satisfies Declaration<FanOut>,
  notification_preferences: {
    links: [byPerson('_id')],
    fields: {
      _id: 'with its row',
      enabledTypes: 'with its row',
      mutedUntil: 'with its row',
      channels: 'with its row',
      updatedAt: 'with its row',
      stamp: 'with its row',
    },
  } satisfies Declaration<PreferencesRow>,
  notification_push_subscriptions: {
    links: [byPerson('userId')],
    fields: {
      _id: 'with its row',
      userId: 'with its row',
      endpoint: { secret: 'with its row' },
      p256dh: { secret: 'with its row' },
      auth: { secret: 'with its row' },
      createdAt: 'with its row',
    },
  } satisfies Declaration<PushSubscriptionRow>,
  notification_deliveries: {
    links: [{ by: 'notification', field: 'subject', erase: 'delete' }],
    fields: { ...COMMAND_FIELDS, subject: 'with its row', body: 'with its row' },
  } satisfies Declaration<Command<DeliveryBody>>,
  notification_delivery_attempts: {
    links: [byPerson('userId'), { by: 'notification', field: 'notificationId', erase: 'delete', omit: 'all' }],
    fields: {
      _id: 'with its row',
      notificationId: 'with its row',
      userId: 'with its row',
      organizationId: 'with its row',
      channel: 'with its row',
      provider: 'with its row',
      status: 'with its row',
      attempt: 'with its row',
      providerId: 'with its row',
      nextRetryAt: 'with its row',
      error: 'with its row',
      metadata: 'with its row',
      isSupport: 'with its row',
      createdAt: 'with its row',
      updatedAt: 'with its row',
    },
  } satisfies Declaration<DeliveryAttempt>,
  notification_alert_calls: {
    links: [byPerson('_id')],
    fields: { _id: 'with its row', calls: 'with its row', lastAt: 'with its row', stamp: 'with its row' },
  } satisfies Declaration<AlertCallsRow>,
} as const;
