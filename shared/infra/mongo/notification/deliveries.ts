import type { ClientSession } from 'mongodb';
import { readIn } from '#infra/mongo/causal-read.ts';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { type CommandOf, newCommand } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf, postCommandsIn } from '#infra/mongo/mailbox/mailbox.ts';
import type { CommandRef } from '#shared/kernel/command.ts';
import { type DeliveryBody, deliveryOrder } from '#shared/notification/commands.ts';
import { CHANNEL_DISABLED, type Channel, type Dispatch } from '#shared/notification/delivery.ts';
import type { Notification } from '#shared/notification/notification.ts';
import { isChannelOff, type Preferences } from '#shared/notification/preferences.ts';
import { notificationEvents, notifications } from './collections.ts';
import { findPreferences } from './preferences.ts';

export type DeliveryJobRow = CommandOf<`delivery:${Channel}`>;

/** Settings for the delivery jobs of new rows. */
export interface Deliveries {
  channels: ReadonlySet<Channel>;
  maxAttempts: number;
  /** Preferences by user id. A job of a channel that its user has turned off is stored SUPPRESSED. Default: no user has a choice. */
  preferences?: ReadonlyMap<string, Pick<Preferences, 'channels'>>;
}

/**
 * Returns one job for each row and channel, to be inserted in the transaction of their cause. Ids are deterministic: if a job exists already,
 * its duplicate key error aborts the transaction, so no notification is delivered twice over one channel. `now` is Unix milliseconds by
 * MongoDB's clock.
 */
export function deliveryJobs(
  rows: readonly Pick<Notification, '_id' | 'userId'>[],
  { channels, maxAttempts, preferences, now }: Deliveries & { now: number },
): DeliveryJobRow[] {
  const posted = rows.length * channels.size;
  return rows.flatMap(({ _id: notificationId, userId }) =>
    [...channels].map((channel) => {
      const order = deliveryOrder({ notificationId, userId, channel });
      const job = newCommand({ ...order, maxAttempts, now, id: order.key, posted });
      return isChannelOff(preferences?.get(userId), channel) ? suppressedJob(job, now) : job;
    }),
  );
}

/** Returns the jobs to ring for. */
export function ringsOf(jobs: readonly DeliveryJobRow[]): CommandRef[] {
  return jobs.filter(({ status }) => status === 'PENDING').map(({ _id, queue, key }) => ({ _id, queue, key }));
}

/** Inserts the jobs of these rows in the transaction of their cause, and returns those to ring for. Without channels nothing is written. */
export async function queueDeliveries(
  mongo: Mongo,
  rows: readonly Pick<Notification, '_id' | 'userId'>[],
  { session, ...options }: Deliveries & { now: number; session: ClientSession },
): Promise<CommandRef[]> {
  const jobs = deliveryJobs(rows, options);
  // All delivery queues share one mailbox.
  await postCommandsIn(mongo, session, jobs);
  return ringsOf(jobs);
}

/** Returns the job as the worker would end it. It is stored, so that a trace shows why nothing was sent. */
function suppressedJob(job: DeliveryJobRow, now: number): DeliveryJobRow {
  return { ...job, status: 'SUPPRESSED', result: { reason: CHANNEL_DISABLED }, settledAt: new Date(now) };
}

/** Removes the user from a job whose notification is gone, in the transaction that ends the job. */
export async function forgetRecipient(
  mongo: Mongo,
  { _id, queue, key }: CommandRef<`delivery:${Channel}`>,
  session: ClientSession,
): Promise<void> {
  await mailboxOf(mongo, queue).updateOne({ _id, key }, [{ $unset: ['body.userId'] }], { session });
}

/**
 * Reads the state on which a delivery is decided, by point reads, one after the other in the session of its claim. The event is read only
 * if its preference type can matter.
 */
export async function findDispatch(
  mongo: Mongo,
  { notificationId, userId, channel }: DeliveryBody,
  session: ClientSession,
): Promise<Dispatch> {
  const options = () => ({ ...readIn(session), maxTimeMS: QUERY_LIMIT_MS });
  const notification = await notifications(mongo).findOne({ _id: notificationId, userId }, options());
  const own = await findPreferences(mongo, userId, session);
  const fanOutId = notification?.fanOutId ?? null;
  const event =
    fanOutId === null || !disablesAny(own)
      ? null
      : await notificationEvents(mongo).findOne({ _id: fanOutId }, { ...options(), projection: { preferenceType: 1 } });
  return { channel, notification, preferences: own, eventPreferenceType: event?.preferenceType ?? null };
}

function disablesAny(own: Preferences | null): boolean {
  return own !== null && Object.values(own.enabledTypes).includes(false);
}
