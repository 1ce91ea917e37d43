import type { ClientSession, OptionalUnlessRequiredId } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { mailboxOf, newCommand } from '#infra/mongo/mailbox/mailbox.ts';
import type { Command, Queue } from '#shared/kernel/command.ts';
import { type Channel, type DeliveryBody, type Dispatch, deliveryJobId } from '#shared/notification/delivery.ts';
import type { Notification } from '#shared/notification/notification.ts';
import type { Preferences } from '#shared/notification/preferences.ts';
import { notificationEvents, notifications, preferences } from './collections.ts';

/** A delivery job: what is to be delivered, and the command that does it. Its `_id` is the same at every try. */
type DeliveryCommand = Command<DeliveryBody>;

/** How delivery jobs of new rows are made. */
export interface Deliveries {
  channels: ReadonlySet<Channel>;
  maxAttempts: number;
}

/** Which job to ring for, once the transaction has committed. */
export interface QueuedDelivery {
  queue: Queue;
  id: string;
}

export function deliveryQueue(channel: Channel): Queue {
  return `delivery:${channel}`;
}

/**
 * Queues one job for each row and channel in the transaction of their cause. Ids are deterministic, so a job that is
 * there already is a duplicate key error, which aborts that transaction: no notification is delivered twice over one
 * channel. Without channels nothing is written. `now` is Unix milliseconds by MongoDB's clock.
 */
export async function queueDeliveries(
  mongo: Mongo,
  rows: readonly Pick<Notification, '_id' | 'userId'>[],
  options: Deliveries & { now: number; session: ClientSession },
): Promise<QueuedDelivery[]> {
  const jobs = rows.flatMap((row) => [...options.channels].map((channel) => deliveryCommand(row, channel, options)));
  const [first] = jobs;
  if (first === undefined) return [];
  // Every delivery queue lies in one mailbox.
  await mailboxOf(mongo, first.queue).insertMany(jobs as OptionalUnlessRequiredId<Command>[], {
    session: options.session,
  });
  return jobs.map(({ queue, _id }) => ({ queue, id: _id }));
}

function deliveryCommand(
  row: Pick<Notification, '_id' | 'userId'>,
  channel: Channel,
  { maxAttempts, now }: Pick<Deliveries, 'maxAttempts'> & { now: number },
): DeliveryCommand {
  const id = deliveryJobId(row._id, channel);
  const command = newCommand({
    queue: deliveryQueue(channel),
    key: id,
    subject: row._id,
    body: { notificationId: row._id, userId: row.userId, channel },
    maxAttempts,
    now,
  });
  return { ...command, _id: id };
}

const OPTIONS = { maxTimeMS: QUERY_LIMIT_MS };

/** What a delivery is decided on. Point reads; the event only where its preference type can matter. */
export async function findDispatch(
  mongo: Mongo,
  { notificationId, userId }: Pick<DeliveryBody, 'notificationId' | 'userId'>,
): Promise<Dispatch> {
  const [notification, own] = await Promise.all([
    notifications(mongo).findOne({ _id: notificationId }, OPTIONS),
    preferences(mongo).findOne({ _id: userId }, OPTIONS),
  ]);
  const fanOutId = notification?.fanOutId ?? null;
  const event =
    fanOutId === null || !disablesAny(own)
      ? null
      : await notificationEvents(mongo).findOne({ _id: fanOutId }, { ...OPTIONS, projection: { preferenceType: 1 } });
  return { notification, preferences: own, eventPreferenceType: event?.preferenceType ?? null };
}

function disablesAny(own: Preferences | null): boolean {
  return own !== null && Object.values(own.enabledTypes).includes(false);
}
