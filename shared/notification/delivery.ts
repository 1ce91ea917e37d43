import type { CommandStatus } from '#shared/kernel/command.ts';

/** Ways to reach a user beside the inbox. One exists where its adapter is configured (`NOTIFICATION_CHANNELS`). */
export const CHANNELS = ['log', 'webhook'] as const;
export type Channel = (typeof CHANNELS)[number];

/** What a delivery job is about; the job itself is a command. */
export interface DeliveryBody {
  notificationId: string;
  userId: string;
  channel: Channel;
}

/** One per notification and channel, the same at every try: a receiver tells a repeat by it. */
export function deliveryJobId(notificationId: string, channel: Channel): string {
  return `${notificationId}:${channel}`;
}

export type DeliveryJobState = 'PENDING' | 'LEASED' | 'SENT' | 'SUPPRESSED' | 'DEAD_LETTERED';

/** The state of a delivery job in its own words. `leased`: under a lease that is not over. */
export function deliveryJobState(status: CommandStatus, leased: boolean): DeliveryJobState {
  if (status === 'SENT' || status === 'SUPPRESSED') return status;
  if (status === 'PENDING') return leased ? 'LEASED' : 'PENDING';
  return 'DEAD_LETTERED';
}

export const DELIVERY_STATUSES = ['QUEUED', 'SENT', 'FAILED', 'DEAD_LETTERED'] as const;
export type DeliveryStatus = (typeof DELIVERY_STATUSES)[number];

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
