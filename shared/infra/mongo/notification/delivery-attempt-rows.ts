import type { ClientSession } from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';
import { literal } from '#infra/mongo/guarded-update.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import type { Command } from '#shared/kernel/command.ts';
import type { DeliveryAttempt } from '#shared/notification/delivery.ts';
import { deliveryAttempts } from './collections.ts';

/** What was known of a try when it ended. */
export type TryEnd = { providerId: string | null } | { error: string };

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
    'error' in end
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
