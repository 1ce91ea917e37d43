import type { Mongo } from '#infra/mongo/connect.ts';
import { FRONT_DOOR_BUDGET_MS, inTransaction } from '#infra/mongo/transaction.ts';
import type { Notification } from '#shared/notification/notification.ts';
import { notifications } from './collections.ts';
import type { Deliveries } from './insert-fan-out.ts';
import { type QueuedDelivery, queueDeliveries } from './queue-deliveries.ts';

/** Makes one row, with its delivery jobs where there is a channel. Gives what to ring for. */
export async function insertNotification(
  mongo: Mongo,
  row: Notification,
  { deliveries, now }: { deliveries: Deliveries; now: number },
): Promise<QueuedDelivery[]> {
  if (deliveries.channels.size === 0) {
    await notifications(mongo).insertOne({ ...row });
    return [];
  }
  return inTransaction(mongo, FRONT_DOOR_BUDGET_MS, async (session) => {
    await notifications(mongo).insertOne({ ...row }, { session });
    return queueDeliveries(mongo, [row], { ...deliveries, now, session });
  });
}
