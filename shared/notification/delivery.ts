import type { DeliveryAttemptRequest } from '#shared/generated/notification.ts';
import type { CommandStatus } from '#shared/kernel/command.ts';
import { instantOf } from '#shared/kernel/time.ts';
import type { Notification } from './notification.ts';
import { isChannelOff, type Preferences, preferenceKey, type SuppressionReason, suppressionOf } from './preferences.ts';

/** Ways to reach a user in addition to the inbox. `NOTIFICATION_CHANNELS` lists the enabled ones. */
export const CHANNELS = ['log', 'webhook', 'email', 'webpush'] as const;
export type Channel = (typeof CHANNELS)[number];

/** Returns one id per notification and channel. Every delivery attempt sends the same id, so that a receiver detects a repeat. */
export function deliveryJobId(notificationId: string, channel: Channel): string {
  return `${notificationId}:${channel}`;
}

type DeliveryJobState = 'PENDING' | 'LEASED' | 'SENT' | 'SUPPRESSED' | 'DEAD_LETTERED';

/** Maps a command's status to the state of a delivery job. `leased`: the command has a lease that has not expired. */
export function deliveryJobState(status: CommandStatus, leased: boolean): DeliveryJobState {
  if (status === 'SENT' || status === 'SUPPRESSED') return status;
  if (status === 'PENDING') return leased ? 'LEASED' : 'PENDING';
  return 'DEAD_LETTERED';
}

/** The stored state that decides a delivery, read when the delivery is due. */
export interface Dispatch {
  channel: Channel;
  /** null if the row does not exist. */
  notification: Notification | null;
  preferences: Preferences | null;
  /** The preference type of the notification's event; null if the event has none. */
  eventPreferenceType: string | null;
}

/** The user has turned the channel off. */
export const CHANNEL_DISABLED = 'CHANNEL_DISABLED';

/** NO_ADDRESS: the profile service knows no e-mail address of the user. NO_SUBSCRIPTION: the user has no browser for push messages. */
export type UnreachableReason = 'NO_ADDRESS' | 'NO_SUBSCRIPTION';

export type DispatchRefusal = 'GONE' | 'DELETED' | SuppressionReason | UnreachableReason | typeof CHANNEL_DISABLED;

type DispatchVerdict = { kind: 'deliver'; notification: Notification } | { kind: 'suppress'; reason: DispatchRefusal };

/** Returns the notification to deliver, or the reason why it must never be delivered. Pure. */
export function checkDispatch(dispatch: Dispatch, now: Date): DispatchVerdict {
  const { channel, notification, preferences, eventPreferenceType } = dispatch;
  if (notification === null) return { kind: 'suppress', reason: 'GONE' };
  if (notification.place === 'DELETED') return { kind: 'suppress', reason: 'DELETED' };
  const reason = suppressionOf(preferences, preferenceKey(notification, eventPreferenceType), now);
  if (reason !== null) return { kind: 'suppress', reason };
  return isChannelOff(preferences, channel)
    ? { kind: 'suppress', reason: CHANNEL_DISABLED }
    : { kind: 'deliver', notification };
}

/** One delivery attempt, ours or reported by another service. It is for diagnostics and never changes an inbox. */
export interface DeliveryAttempt {
  _id: string;
  notificationId: string;
  userId: string;
  organizationId: string | null;
  channel: string;
  provider: string;
  status: DeliveryStatus;
  attempt: number;
  /** The provider's id of the accepted message. */
  providerId: string | null;
  nextRetryAt: Date | null;
  error: string | null;
  /** JSON text. */
  metadata: string | null;
  /** True if its notification is a support notification; used by the support summary. */
  isSupport: boolean;
  createdAt: Date;
  updatedAt: Date;
}

export const DELIVERY_STATUSES = ['QUEUED', 'SENT', 'FAILED', 'DEAD_LETTERED'] as const;
export type DeliveryStatus = (typeof DELIVERY_STATUSES)[number];

/** Returns the row of a delivery attempt that another service reports. The caller adds `isSupport` from the notification. */
export function recordedAttempt(
  body: DeliveryAttemptRequest,
  facts: { id: string; now: Date; organizationId: string | null },
): Omit<DeliveryAttempt, 'isSupport'> {
  const { notificationId, userId, channel, provider, status } = body;
  return {
    _id: facts.id,
    notificationId,
    userId,
    channel,
    provider,
    status,
    organizationId: body.organizationId ?? facts.organizationId,
    attempt: body.attempt ?? 1,
    providerId: body.providerId ?? null,
    nextRetryAt: instantOf(body.nextRetryAt),
    error: body.error ?? null,
    metadata: body.metadata === undefined ? null : JSON.stringify(body.metadata),
    createdAt: facts.now,
    updatedAt: facts.now,
  };
}

/** Returns a delivery attempt as a reply shows it. */
export function deliveryAttemptView(row: DeliveryAttempt) {
  return {
    id: row._id,
    notificationId: row.notificationId,
    userId: row.userId,
    organizationId: row.organizationId,
    channel: row.channel,
    provider: row.provider,
    status: row.status,
    attempt: row.attempt,
    providerId: row.providerId,
    nextRetryAt: row.nextRetryAt?.toISOString() ?? null,
    error: row.error,
    metadata: row.metadata === null ? null : (JSON.parse(row.metadata) as Record<string, unknown>),
    createdAt: row.createdAt.toISOString(),
    updatedAt: row.updatedAt.toISOString(),
  };
}
