import type { ClientSession, Filter } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { literal } from '#infra/mongo/guarded-update.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import type { Command } from '#shared/kernel/command.ts';
import type { DeliveryAttempt, DeliveryStatus } from '#shared/notification/delivery.ts';
import { deliveryAttempts, notifications } from './collections.ts';
import type { Page } from './inbox.ts';

/** What was known of a try when it ended. */
export type TryEnd = { kind: 'sent'; providerId: string | null } | { kind: 'failed'; error: string };

/** How a row reads whose try never told its end. */
export const BROKEN_OFF = 'broken off: its worker ended or lost the database during this try';

/** The row of a try: each claim has one of its own. */
export function tryIdOf({ _id, fence }: Pick<Command, '_id' | 'fence'>): string {
  return `${_id}:${fence}`;
}

/** Writes the row of a try that is about to begin. */
export async function beginTry(mongo: Mongo, row: DeliveryAttempt, session: ClientSession): Promise<void> {
  await deliveryAttempts(mongo).insertOne({ ...row }, { session });
}

/** Ends the row of an earlier try that still says QUEUED: whoever made it cannot tell any more. */
export async function breakOffTry(mongo: Mongo, tryId: string, session: ClientSession): Promise<void> {
  await deliveryAttempts(mongo).updateOne(
    { _id: tryId, status: 'QUEUED' },
    [{ $set: { status: 'FAILED', error: literal(BROKEN_OFF), updatedAt: '$$NOW' } }],
    { session },
  );
}

/** Takes the row of a try away that was not made after all. */
export async function dropTry(mongo: Mongo, tryId: string, session: ClientSession): Promise<void> {
  await deliveryAttempts(mongo).deleteOne({ _id: tryId }, { session });
}

/**
 * Ends the row of a try in the transaction that settles its command, and after that was written: a failed one reads there
 * whether and when there will be another.
 */
export async function endTry(mongo: Mongo, command: Command, end: TryEnd, session: ClientSession): Promise<void> {
  const changes =
    end.kind === 'failed'
      ? { ...(await afterFailure(mongo, command, session)), error: literal(end.error.slice(0, 500)) }
      : { status: 'SENT', providerId: literal(end.providerId) };
  await deliveryAttempts(mongo).updateOne({ _id: tryIdOf(command) }, [{ $set: { ...changes, updatedAt: '$$NOW' } }], {
    session,
  });
}

async function afterFailure(
  mongo: Mongo,
  { queue, _id }: Command,
  session: ClientSession,
): Promise<Pick<DeliveryAttempt, 'status' | 'nextRetryAt'>> {
  const settled = await mailboxOf(mongo, queue).findOne({ _id }, { session, projection: { status: 1, nextRunAt: 1 } });
  return settled?.status === 'PENDING'
    ? { status: 'FAILED', nextRetryAt: settled.nextRunAt }
    : { status: 'DEAD_LETTERED', nextRetryAt: null };
}

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

/** Which tries a list shows; null does not narrow. */
export interface WantedAttempts {
  /** null: of all users. */
  userId: string | null;
  notificationId: string | null;
  organizationId: string | null;
  channel: string | null;
  provider: string | null;
  status: DeliveryStatus | null;
  /** Both inclusive, over `createdAt`. */
  from: Date | null;
  to: Date | null;
}

/** A page of tries, newest first, and how many there are in all pages. */
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
    // Times are whole milliseconds. A workaround for the stand-in in Python (docs/engines.md): where an index descends, its $gte leaves the
    // bound out.
    ...(from === null ? {} : { $gt: new Date(from.getTime() - 1) }),
    ...(to === null ? {} : { $lte: to }),
  };
  return {
    ...Object.fromEntries(Object.entries(equal).filter(([, value]) => value !== null)),
    ...(from === null && to === null ? {} : { createdAt: created }),
  };
}
