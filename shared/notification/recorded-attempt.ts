import type { DeliveryAttemptRequest } from '#shared/generated/notification.ts';
import { instantOf } from '#shared/kernel/time.ts';
import type { DeliveryAttempt } from './delivery.ts';

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
