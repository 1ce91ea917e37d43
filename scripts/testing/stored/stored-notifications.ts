import { createECDH, randomBytes } from 'node:crypto';
import { decrypt } from 'http_ece';
import type { Mongo } from '#infra/mongo/connect.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { notifications } from '#infra/mongo/notification/collections.ts';
import { queueDeliveries } from '#infra/mongo/notification/deliveries.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import type { Command } from '#shared/kernel/command.ts';
import { newId } from '#shared/kernel/ids.ts';
import { type Channel, deliveryJobId } from '#shared/notification/delivery.ts';
import { type Notification, newNotification } from '#shared/notification/notification.ts';
import { subscriptionOf } from '#shared/notification/push.ts';

/** Returns an unread notification in an inbox; `change` overrides fields. */
export function freshNotification(change: Partial<Notification> = {}): Notification {
  const { type = 'GRADE_RELEASED' } = change;
  const input = { userId: 'student-1', type, title: 'Kết quả', content: 'Bài thi đã có.' };
  const origin = { fanOutId: null, sourceEventRef: null, organizationId: null };
  return { ...newNotification(input, { id: newId(), now: new Date(), place: 'INBOX', ordinal: 0, origin }), ...change };
}

const CHUNK = 5_000;

/** Stores `count` notifications in order. `change` overrides fields by the number of the row, from 0. */
export async function storeNotifications(
  mongo: Mongo,
  count: number,
  change: (n: number) => Partial<Notification> = () => ({}),
): Promise<Notification[]> {
  const rows = Array.from({ length: count }, (_, n) => freshNotification(change(n)));
  for (let from = 0; from < count; from += CHUNK) {
    await notifications(mongo).insertMany(rows.slice(from, from + CHUNK));
  }
  return rows;
}

/** Stores a notification of a new user and queues its delivery over one channel, due one second ago. Returns the delivery. */
export async function postDelivery(
  mongo: Mongo,
  options: { channel?: Channel; maxAttempts?: number; now?: number; notification?: Partial<Notification> } = {},
): Promise<Command> {
  const { channel = 'webhook', maxAttempts = 10, now = Date.now() - 1_000 } = options;
  const _id = newId();
  const user = { _id, userId: `user-${_id}`, organizationId: 'org-1' };
  const row = freshNotification({ ...user, ...options.notification });
  await inTransaction(mongo, 60_000, async (session) => {
    await notifications(mongo).insertOne({ ...row }, { session });
    await queueDeliveries(mongo, [row], { channels: new Set([channel]), maxAttempts, now, session });
  });
  const queue = `delivery:${channel}` as const;
  return (await mailboxOf(mongo, queue).findOne({ _id: deliveryJobId(row._id, channel) })) as Command;
}

export type TestBrowser = ReturnType<typeof testBrowser>;

/**
 * Returns a browser with keys of its own, which reads push messages by another implementation than the one that writes them. Default endpoint:
 * one that no push service has issued.
 */
export function testBrowser(endpoint = `https://fcm.googleapis.com/send/${newId()}`) {
  const key = createECDH('prime256v1');
  const p256dh = key.generateKeys('base64url');
  const auth = randomBytes(16).toString('base64url');
  const request = { endpoint, keys: { p256dh, auth } };
  return {
    request,
    subscription: subscriptionOf(request, new Date()),
    /** Returns the parsed message. @throws Error if it was encrypted for another browser */
    read: (body: Buffer) =>
      JSON.parse(decrypt(body, { version: 'aes128gcm', privateKey: key, authSecret: auth }).toString('utf8')),
  };
}
