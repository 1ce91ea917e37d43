import type { ClientSession } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { literal } from '#infra/mongo/guarded-update.ts';
import { type FanOut, MAX_AT_ONCE } from '#shared/notification/fan-out.ts';
import type { Notification } from '#shared/notification/notification.ts';
import { fanOuts, notifications } from './collections.ts';

export function findFanOut(mongo: Mongo, fanOutId: string): Promise<FanOut | null> {
  return fanOuts(mongo).findOne({ _id: fanOutId }, { maxTimeMS: QUERY_LIMIT_MS });
}

/** The next rows of a fan-out after this ordinal, those deleted meanwhile included. */
export function rowsOfFanOut(
  mongo: Mongo,
  fanOutId: string,
  after: number,
): Promise<Pick<Notification, '_id' | 'userId' | 'ordinal' | 'place'>[]> {
  return notifications(mongo)
    .find(
      { fanOutId, ordinal: { $gt: after } },
      {
        projection: { userId: 1, ordinal: 1, place: 1 },
        sort: { ordinal: 1 },
        limit: MAX_AT_ONCE,
        maxTimeMS: QUERY_LIMIT_MS,
      },
    )
    .toArray();
}

/**
 * Moves the rows after one ordinal up to another to their inboxes; one that was deleted stays deleted. May be made again. By a range of one
 * index: held against a list of ids, each row would be compared with all of them.
 */
export async function moveToInbox(
  mongo: Mongo,
  fanOutId: string,
  { after, last }: { after: number; last: number },
): Promise<void> {
  await notifications(mongo).updateMany(
    { fanOutId, ordinal: { $gt: after, $lte: last } },
    [{ $set: { place: { $cond: [{ $eq: ['$place', literal(fanOutId)] }, 'INBOX', '$place'] } } }],
    { maxTimeMS: QUERY_LIMIT_MS * 2 },
  );
}

/** Every row is in its inbox, and no reader holds an older list: nobody needs to know of the fan-out any more. */
export async function forgetFanOut(mongo: Mongo, fanOutId: string, session: ClientSession): Promise<void> {
  await fanOuts(mongo).deleteOne({ _id: fanOutId }, { session });
}
