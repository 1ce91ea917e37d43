import type { DeliveryAttemptRequest } from '#shared/generated/notification.ts';
import type { CommandStatus } from '#shared/kernel/command.ts';
import { instantOf } from '#shared/kernel/time.ts';
import type { Notification } from './notification.ts';
import { type Preferences, preferenceKey, type SuppressionReason, suppressionOf } from './preferences.ts';

/** Ways to reach a user beside the inbox. One exists where its adapter is configured (`NOTIFICATION_CHANNELS`). */
export const CHANNELS = ['log', 'webhook'] as const;
export type Channel = (typeof CHANNELS)[number];

/** One per notification and channel, the same at every try: a receiver tells a repeat by it. */
export function deliveryJobId(notificationId: string, channel: Channel): string {
  return `${notificationId}:${channel}`;
}

type DeliveryJobState = 'PENDING' | 'LEASED' | 'SENT' | 'SUPPRESSED' | 'DEAD_LETTERED';

/** The state of a delivery job in its own words. `leased`: under a lease that is not over. */
export function deliveryJobState(status: CommandStatus, leased: boolean): DeliveryJobState {
  if (status === 'SENT' || status === 'SUPPRESSED') return status;
  if (status === 'PENDING') return leased ? 'LEASED' : 'PENDING';
  return 'DEAD_LETTERED';
}

/** What a delivery is decided on, as it stands at that moment. */
export interface Dispatch {
  /** null: there is no such row. */
  notification: Notification | null;
  preferences: Preferences | null;
  /** Of the event that it came with; null where that names none. */
  eventPreferenceType: string | null;
}

export type DispatchRefusal = 'GONE' | 'DELETED' | SuppressionReason;

type DispatchVerdict = { kind: 'deliver'; notification: Notification } | { kind: 'suppress'; reason: DispatchRefusal };

/** The notification to deliver, or why it is not to be delivered any more, ever. Pure. */
export function judgeDispatch(dispatch: Dispatch, now: Date): DispatchVerdict {
  const { notification, preferences, eventPreferenceType } = dispatch;
  if (notification === null) return { kind: 'suppress', reason: 'GONE' };
  if (notification.place === 'DELETED') return { kind: 'suppress', reason: 'DELETED' };
  const reason = suppressionOf(preferences, preferenceKey(notification, eventPreferenceType), now);
  return reason === null ? { kind: 'deliver', notification } : { kind: 'suppress', reason };
}

/** One try to deliver, ours or reported by another service: diagnostics, which never change an inbox. */
export interface DeliveryAttempt {
  _id: string;
  notificationId: string;
  userId: string;
  organizationId: string | null;
  channel: string;
  provider: string;
  status: DeliveryStatus;
  attempt: number;
  /** The provider's own name for what it took. */
  providerId: string | null;
  nextRetryAt: Date | null;
  error: string | null;
  /** JSON text. */
  metadata: string | null;
  /** Whether its notification is a support one; for the support summary. */
  isSupport: boolean;
  createdAt: Date;
  updatedAt: Date;
}

export const DELIVERY_STATUSES = ['QUEUED', 'SENT', 'FAILED', 'DEAD_LETTERED'] as const;
export type DeliveryStatus = (typeof DELIVERY_STATUSES)[number];

/** The row of a try that another service reports, its shape already checked. Whether it is about support its notification knows. */
export function recordedAttempt(
  body: DeliveryAttemptRequest,
  made: { id: string; now: Date; organizationId: string | null },
): Omit<DeliveryAttempt, 'isSupport'> {
  const { notificationId, userId, channel, provider, status } = body;
  return {
    _id: made.id,
    notificationId,
    userId,
    channel,
    provider,
    status,
    organizationId: body.organizationId ?? made.organizationId,
    attempt: body.attempt ?? 1,
    providerId: body.providerId ?? null,
    nextRetryAt: instantOf(body.nextRetryAt),
    error: body.error ?? null,
    metadata: body.metadata === undefined ? null : JSON.stringify(body.metadata),
    createdAt: made.now,
    updatedAt: made.now,
  };
}

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
