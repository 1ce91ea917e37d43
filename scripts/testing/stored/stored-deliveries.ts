import type { Mongo } from '#infra/mongo/connect.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { notifications } from '#infra/mongo/notification/collections.ts';
import { queueDeliveries } from '#infra/mongo/notification/deliveries.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import type { Command } from '#shared/kernel/command.ts';
import { newId } from '#shared/kernel/ids.ts';
import { type Channel, deliveryJobId } from '#shared/notification/delivery.ts';
import { type Notification, newNotification } from '#shared/notification/notification.ts';

/** Returns a notification in the inbox of a user who has no other. */
export function freshNotification(overrides: Partial<Notification> = {}): Notification {
  const id = overrides._id ?? newId();
  const input = { userId: `user-${id}`, type: 'GRADE_RELEASED', title: 'Có điểm', content: 'Bài thi đã có điểm.' };
  const origin = { fanOutId: null, sourceEventRef: null, organizationId: 'org-1' };
  return { ...newNotification(input, { id, now: new Date(), place: 'INBOX', ordinal: 0, origin }), ...overrides };
}

/** Stores a notification and queues its delivery over one channel, due one second ago. Returns the delivery. */
export async function postDelivery(
  mongo: Mongo,
  options: { channel?: Channel; maxAttempts?: number; now?: number; notification?: Partial<Notification> } = {},
): Promise<Command> {
  const { channel = 'webhook', maxAttempts = 10, now = Date.now() - 1_000 } = options;
  const row = freshNotification(options.notification);
  await inTransaction(mongo, 60_000, async (session) => {
    await notifications(mongo).insertOne({ ...row }, { session });
    await queueDeliveries(mongo, [row], { channels: new Set([channel]), maxAttempts, now, session });
  });
  const queue = `delivery:${channel}` as const;
  return (await mailboxOf(mongo, queue).findOne({ _id: deliveryJobId(row._id, channel) })) as Command;
}
