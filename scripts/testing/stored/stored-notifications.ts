import { createECDH, randomBytes } from 'node:crypto';
import { decrypt } from 'http_ece';
import type { Mongo } from '#infra/mongo/connect.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { fanOuts, notifications } from '#infra/mongo/notification/collections.ts';
import { queueDeliveries } from '#infra/mongo/notification/deliveries.ts';
import type { NewFanOut } from '#infra/mongo/notification/fan-out.ts';
import { openFanOut, stageRows } from '#infra/mongo/notification/stage-fan-out.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import type { Command } from '#shared/kernel/command.ts';
import { newId } from '#shared/kernel/ids.ts';
import { atOnce } from '#shared/kernel/pieces.ts';
import { finishFanOutOrder } from '#shared/notification/commands.ts';
import { type Channel, deliveryJobId } from '#shared/notification/delivery.ts';
import { type EventInput, newEvent, sourceEventRef } from '#shared/notification/event.ts';
import { type FanOut, planFanOut } from '#shared/notification/fan-out.ts';
import { type Notification, type NotificationInput, newNotification } from '#shared/notification/notification.ts';
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

/** Returns the notifications of a producer for `count` recipients, `user-0` and so on. */
function recipients(count: number, more: Partial<NotificationInput> = {}): NotificationInput[] {
  return Array.from({ length: count }, (_, n) => ({
    userId: `user-${n}`,
    type: 'ADMIN_BROADCAST',
    title: 'Nghỉ lễ',
    content: 'Trường nghỉ ngày mai.',
    ...more,
  }));
}

interface FanOutSample {
  rows: number;
  event?: EventInput | null;
  channels?: NewFanOut['deliveries']['channels'];
  now?: number;
  /** Rows in one transaction. A small number stages a small fan-out like a large one. */
  rowsAtOnce?: number;
  /** Milliseconds without progress after which another fan-out of the same event counts as stalled. */
  stalledMs?: number;
}

/** Stages a fan-out without publishing it, as a front door that ended in between would leave it. */
export async function stageOnly(mongo: Mongo, fanOut: NewFanOut): Promise<void> {
  const { fanOutId, rows, now, event } = fanOut;
  const source = event === null ? null : sourceEventRef(event);
  await openFanOut(mongo, { fanOutId, source, rows: rows.length, now });
  await stageRows(mongo, fanOut);
}

/** Returns a fan-out as a front door plans it. Defaults: a new event, no preferences, no channels. */
export function sampleFanOut(sample: FanOutSample): NewFanOut {
  const { rows, event, channels, rowsAtOnce, stalledMs, now = Date.now() } = sample;
  const fanOutId = newId(now);
  const bound = rowsAtOnce === undefined ? {} : { rowsAtOnce };
  const source: EventInput | null =
    event === undefined
      ? { sourceService: 'admin-service', sourceEventId: fanOutId, type: 'admin.broadcast.v1' }
      : event;
  const plan = atOnce(
    planFanOut(
      { notifications: recipients(rows), event: source, organizationId: null, preferences: new Map() },
      { fanOutId, now: new Date(now), newId: () => newId(now), ...bound },
    ),
  );
  const made = { id: fanOutId, now: new Date(now), created: plan.rows.length, organizationId: null };
  return {
    fanOutId,
    now,
    rows: plan.rows,
    staged: plan.staged,
    ...bound,
    ...(stalledMs === undefined ? {} : { stalledMs }),
    event: source === null ? null : newEvent(source, made),
    deliveries: { channels: channels ?? new Set(), maxAttempts: 6 },
    finish: newCommand({ ...finishFanOutOrder(fanOutId), maxAttempts: 10, now }),
  };
}

/** Stores fan-outs of one row in these states, as `fan-out-1` and so on. */
export async function storeFanOutStates(mongo: Mongo, states: readonly FanOut['state'][]): Promise<void> {
  const common = { source: null, rows: 1, staged: 1, stageBy: new Date(), publishedAt: null };
  await fanOuts(mongo).insertMany(states.map((state, n) => ({ _id: `fan-out-${n + 1}`, state, ...common })));
}
