import type { ClientSession, Filter } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { literal } from '#infra/mongo/guarded-update.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import type { Command } from '#shared/kernel/command.ts';
import { beginningOf } from '#shared/kernel/text.ts';
import type { DeliveryBody } from '#shared/notification/commands.ts';
import type { DeliveryAttempt, DeliveryStatus } from '#shared/notification/delivery.ts';
import { type DeliveryAttemptKey, deliveryAttempts, notifications } from './collections.ts';
import type { Page } from './inbox.ts';

/** Outcome of a delivery attempt that ran to its end. */
export type DeliveryAttemptEnd = { kind: 'sent'; providerId: string | null } | { kind: 'failed'; error: string };

/** Error of a row whose delivery attempt never recorded its end. */
export const INTERRUPTED = 'broken off: its worker ended or lost the database during this try';

/** Returns the key of a delivery attempt's row. Each claim of a command has a row of its own. */
export function deliveryAttemptKey({
  _id,
  fence,
  body,
}: Pick<Command<DeliveryBody>, '_id' | 'fence' | 'body'>): DeliveryAttemptKey {
  return { _id: `${_id}:${fence}`, userId: body.userId };
}

/** Inserts the row of a delivery attempt that is about to begin. */
export async function beginDeliveryAttempt(mongo: Mongo, row: DeliveryAttempt, session: ClientSession): Promise<void> {
  await deliveryAttempts(mongo).insertOne({ ...row }, { session });
}

/** Marks the row of an earlier delivery attempt as FAILED if it is still QUEUED: its worker can no longer record the end. */
export async function failAbandonedAttempt(
  mongo: Mongo,
  { _id, userId }: DeliveryAttemptKey,
  session: ClientSession,
): Promise<void> {
  await deliveryAttempts(mongo).updateOne(
    { _id, userId, status: 'QUEUED' },
    [{ $set: { status: 'FAILED', error: literal(INTERRUPTED), updatedAt: '$$NOW' } }],
    { session },
  );
}

/** Deletes the row of a delivery attempt that was not made after all. */
export async function deleteDeliveryAttempt(
  mongo: Mongo,
  { _id, userId }: DeliveryAttemptKey,
  session: ClientSession,
): Promise<void> {
  await deliveryAttempts(mongo).deleteOne({ _id, userId }, { session });
}

/**
 * Ends the row of a delivery attempt in the transaction that settles its command. Call it after the command was written: a failed
 * row copies from it whether and when the next delivery attempt follows.
 */
export async function endDeliveryAttempt(
  mongo: Mongo,
  command: Command<DeliveryBody>,
  end: DeliveryAttemptEnd,
  session: ClientSession,
): Promise<void> {
  const changes =
    end.kind === 'failed'
      ? { ...(await afterFailure(mongo, command, session)), error: literal(beginningOf(end.error, 500)) }
      : { status: 'SENT', providerId: literal(end.providerId) };
  const key = deliveryAttemptKey(command);
  await deliveryAttempts(mongo).updateOne(key, [{ $set: { ...changes, updatedAt: '$$NOW' } }], { session });
}

async function afterFailure(
  mongo: Mongo,
  { _id, queue, key }: Command,
  session: ClientSession,
): Promise<Pick<DeliveryAttempt, 'status' | 'nextRetryAt'>> {
  const settled = await mailboxOf(mongo, queue).findOne(
    { _id, key },
    { session, projection: { status: 1, nextRunAt: 1 } },
  );
  return settled?.status === 'PENDING'
    ? { status: 'FAILED', nextRetryAt: settled.nextRunAt }
    : { status: 'DEAD_LETTERED', nextRetryAt: null };
}

/**
 * Stores a delivery attempt that another service reports, and whether it was about support. Its notification need not be known
 * here.
 */
export async function insertDeliveryAttempt(
  mongo: Mongo,
  attempt: Omit<DeliveryAttempt, 'isSupport'>,
): Promise<DeliveryAttempt> {
  const options = { projection: { isSupport: 1 }, maxTimeMS: QUERY_LIMIT_MS };
  const { notificationId: _id, userId } = attempt;
  // A report may name another user than the owner of the notification; every shard then searches for the notification.
  const about =
    (await notifications(mongo).findOne({ _id, userId }, options)) ??
    (await notifications(mongo).findOne({ _id }, options));
  const row = { ...attempt, isSupport: about?.isSupport ?? false };
  await deliveryAttempts(mongo).insertOne(row, { maxTimeMS: QUERY_LIMIT_MS });
  return row;
}

/** Filter of a list of delivery attempts; null does not narrow. */
export interface WantedAttempts {
  /** null: all users. */
  userId: string | null;
  notificationId: string | null;
  organizationId: string | null;
  channel: string | null;
  provider: string | null;
  status: DeliveryStatus | null;
  /** `from` and `to` bound `createdAt`; both are inclusive. */
  from: Date | null;
  to: Date | null;
}

/** Returns a page of delivery attempts, newest first, and their total number over all pages. */
export async function listDeliveryAttempts(
  mongo: Mongo,
  wanted: WantedAttempts,
  { page, limit }: Page,
): Promise<{ rows: DeliveryAttempt[]; total: number }> {
  const filter = filterOf(wanted);
  const isOfAll = wanted.userId === null && wanted.notificationId === null;
  const bounds = { ...(isOfAll ? { hint: 'newest' } : {}), maxTimeMS: QUERY_LIMIT_MS };
  const [rows, total] = await Promise.all([
    deliveryAttempts(mongo)
      .find(filter, { ...bounds, sort: { createdAt: -1, _id: -1 }, skip: (page - 1) * limit, limit })
      .toArray(),
    deliveryAttempts(mongo).countDocuments(filter, bounds),
  ]);
  return { rows, total };
}

function filterOf({ from, to, ...equal }: WantedAttempts): Filter<DeliveryAttempt> {
  const created = {
    // Times are whole milliseconds, so this means `$gte: from`. It works around the stand-in in Python (docs/engines.md), whose
    // $gte omits the bound on a descending index.
    ...(from === null ? {} : { $gt: new Date(from.getTime() - 1) }),
    ...(to === null ? {} : { $lte: to }),
  };
  return {
    ...Object.fromEntries(Object.entries(equal).filter(([, value]) => value !== null)),
    ...(from === null && to === null ? {} : { createdAt: created }),
  };
}
