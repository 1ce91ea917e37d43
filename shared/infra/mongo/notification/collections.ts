import type { Collection } from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { Stamped } from '#infra/mongo/guarded-update.ts';
import type { DeliveryAttempt } from '#shared/notification/delivery.ts';
import type { NotificationEvent, StoredSuppression } from '#shared/notification/event.ts';
import type { FanOut } from '#shared/notification/fan-out.ts';
import type { Notification } from '#shared/notification/notification.ts';
import type { Preferences } from '#shared/notification/preferences.ts';
import type { PushSubscription } from '#shared/notification/push.ts';

export type NotificationRow = Notification & Stamped;
/** Names one row and its owner, who decides on which shard it is. */
export type NotificationKey = Pick<Notification, '_id' | 'userId'>;
/** Names one row and the user of its notification, who decides on which shard it is. */
export type DeliveryAttemptKey = Pick<DeliveryAttempt, '_id' | 'userId'>;
/** The keys of `enabledTypes` are field names here; `preferences.ts` converts types to them and back. */
export type PreferencesRow = Preferences & Stamped;

/** A browser; `_id` is the id of its subscription. */
export interface PushSubscriptionRow extends Omit<PushSubscription, 'id'> {
  _id: string;
  /** The last user who registered it, and the only one whose messages it gets. */
  userId: string;
}

/** The calls of one actor within the last hour; `_id` is the actor's id. */
export interface AlertCallsRow extends Stamped {
  _id: string;
  calls: Date[];
  lastAt: Date;
}

/**
 * A notification of no event that was not created, with the reason. An event stores its suppressed recipients itself. No reply depends on
 * a row: it lets operators find why a user was not notified.
 */
export interface SuppressionRow extends StoredSuppression {
  _id: string;
  /** Type of the notification. */
  type: string;
  /** Id of the request that would have created it. */
  requestId: string;
  at: Date;
}

/** An id that another system has chosen for a notification; see `snapshots.ts`. */
export interface SnapshotIdRow {
  _id: string;
}

export const NOTIFICATIONS = 'notifications';
export const NOTIFICATION_EVENTS = 'notification_events';
export const FAN_OUTS = 'notification_fan_outs';
export const SNAPSHOT_IDS = 'notification_snapshot_ids';
export const SUPPRESSIONS = 'notification_suppressions';
const PREFERENCES = 'notification_preferences';
export const PUSH_SUBSCRIPTIONS = 'notification_push_subscriptions';
export const DELIVERY_ATTEMPTS = 'notification_delivery_attempts';
export const ALERT_CALLS = 'notification_alert_calls';

export const notifications = (mongo: Mongo): Collection<NotificationRow> => mongo.db.collection(NOTIFICATIONS);
export const snapshotIds = (mongo: Mongo): Collection<SnapshotIdRow> => mongo.db.collection(SNAPSHOT_IDS);
export const notificationEvents = (mongo: Mongo): Collection<NotificationEvent> =>
  mongo.db.collection(NOTIFICATION_EVENTS);
export const notificationSuppressions = (mongo: Mongo): Collection<SuppressionRow> => mongo.db.collection(SUPPRESSIONS);
export const fanOuts = (mongo: Mongo): Collection<FanOut> => mongo.db.collection(FAN_OUTS);
export const preferences = (mongo: Mongo): Collection<PreferencesRow> => mongo.db.collection(PREFERENCES);
export const pushSubscriptions = (mongo: Mongo): Collection<PushSubscriptionRow> =>
  mongo.db.collection(PUSH_SUBSCRIPTIONS);
export const deliveryAttempts = (mongo: Mongo): Collection<DeliveryAttempt> => mongo.db.collection(DELIVERY_ATTEMPTS);
export const alertCalls = (mongo: Mongo): Collection<AlertCallsRow> => mongo.db.collection(ALERT_CALLS);
