import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import type { DeliveryAttempt } from '#shared/notification/delivery.ts';
import { deliveryAttempts, notifications } from './collections.ts';

/** Keeps a try that another service reports, with whether it was about support. Its notification need not be known here. */
export async function insertDeliveryAttempt(
  mongo: Mongo,
  attempt: Omit<DeliveryAttempt, 'isSupport'>,
): Promise<DeliveryAttempt> {
  const about = await notifications(mongo).findOne(
    { _id: attempt.notificationId },
    { projection: { isSupport: 1 }, maxTimeMS: QUERY_LIMIT_MS },
  );
  const row = { ...attempt, isSupport: about?.isSupport ?? false };
  await deliveryAttempts(mongo).insertOne(row, { maxTimeMS: QUERY_LIMIT_MS });
  return row;
}
