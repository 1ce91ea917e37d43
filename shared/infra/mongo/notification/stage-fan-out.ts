import type { ClientSession } from 'mongodb';
import { readIn } from '#infra/mongo/causal-read.ts';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { literal, msOf, NOW_MS } from '#infra/mongo/guarded-update.ts';
import type { CommandOf } from '#infra/mongo/mailbox/commands.ts';
import { postCommandIn, postCommandsIn } from '#infra/mongo/mailbox/mailbox.ts';
import { FRONT_DOOR_BUDGET_MS, inTransaction } from '#infra/mongo/transaction.ts';
import type { NotificationEvent } from '#shared/notification/event.ts';
import { type FanOut, MAX_AT_ONCE, STAGE_WITHIN_MS } from '#shared/notification/fan-out.ts';
import type { Notification } from '#shared/notification/notification.ts';
import { fanOuts, notificationEvents, notifications } from './collections.ts';

/**
 * Thrown if a fan-out may no longer be staged or published, because it took too long or was abandoned. None of its rows is
 * visible.
 */
export class FanOutLost extends Error {
  constructor(fanOutId: string) {
    super(`fan-out ${fanOutId} was not staged in time`);
    this.name = 'FanOutLost';
  }
}

/** Inserts a fan-out whose rows are about to be staged. */
export async function openFanOut(
  mongo: Mongo,
  { fanOutId, source, rows, now }: { fanOutId: string; source: string | null; rows: number; now: number },
): Promise<void> {
  await fanOuts(mongo).insertOne({
    _id: fanOutId,
    state: 'STAGING',
    source,
    rows,
    staged: 0,
    stageBy: new Date(now + STAGE_WITHIN_MS),
    publishedAt: null,
  });
}

/** Returns the progress of an earlier fan-out of the same source that is being staged, or null. */
export function findEarlierStaging(
  mongo: Mongo,
  { fanOutId, source }: { fanOutId: string; source: string },
): Promise<Pick<FanOut, '_id' | 'staged'> | null> {
  return fanOuts(mongo).findOne(
    { state: 'STAGING', source, _id: { $lt: fanOutId } },
    { projection: { staged: 1 }, sort: { _id: 1 }, hint: 'by_state', maxTimeMS: QUERY_LIMIT_MS },
  );
}

/**
 * Inserts the rows where no reader sees them, chunk by chunk. Before each chunk it checks that the fan-out is still STAGING;
 * otherwise it throws FanOutLost. Check and chunk need not be atomic: a fan-out that is abandoned between them can never be
 * published.
 */
export async function stageRows(
  mongo: Mongo,
  {
    fanOutId,
    rows,
    rowsAtOnce = MAX_AT_ONCE,
  }: { fanOutId: string; rows: readonly Notification[]; rowsAtOnce?: number },
): Promise<void> {
  for (let from = 0; from < rows.length; from += rowsAtOnce) {
    const chunk = rows.slice(from, from + rowsAtOnce);
    const staging = await fanOuts(mongo).updateOne(
      { _id: fanOutId, state: 'STAGING' },
      { $inc: { staged: chunk.length } },
      { maxTimeMS: QUERY_LIMIT_MS },
    );
    if (staging.matchedCount !== 1) throw new FanOutLost(fanOutId);
    await notifications(mongo).insertMany([...chunk], { ordered: false });
  }
}

/**
 * Makes every row visible in one commit, together with the event, and posts the command that finishes the fan-out. Throws FanOutLost
 * if the fan-out is late, incomplete or abandoned. A second event of the same source is a duplicate key error. In both cases
 * nothing becomes visible.
 */
export async function publishFanOut(
  mongo: Mongo,
  {
    fanOutId,
    event,
    rows,
    finish,
    audit,
  }: {
    fanOutId: string;
    event: NotificationEvent | null;
    rows: readonly Notification[];
    finish: CommandOf<'upkeep:fanouts'>;
    audit?: CommandOf<'upkeep:audit'>;
  },
): Promise<void> {
  const inTime = { $and: [{ $gt: [msOf('$stageBy'), NOW_MS] }, { $eq: ['$staged', rows.length] }] };
  await inTransaction(mongo, FRONT_DOOR_BUDGET_MS, async (session) => {
    if (event !== null) await notificationEvents(mongo).insertOne({ ...event }, { session });
    const published = await fanOuts(mongo).updateOne(
      { _id: fanOutId, state: 'STAGING' },
      [
        {
          $set: { state: { $cond: [inTime, 'PUBLISHED', '$state'] }, publishedAt: { $cond: [inTime, '$$NOW', null] } },
        },
      ],
      { session },
    );
    if (published.modifiedCount !== 1) throw new FanOutLost(fanOutId);
    if (audit === undefined) await postCommandIn(mongo, session, finish);
    else await postCommandsIn<'upkeep:fanouts' | 'upkeep:audit'>(mongo, session, [finish, audit]);
  });
}

/** Rows that one command deletes. */
const SWEPT_AT_ONCE = 500;

/**
 * Abandons a fan-out that was not published and deletes its rows. From the first write on no process can publish it. Rows that
 * remain after `withinMs` are left to the sweep. `unchanged`: the fan-out was published or no longer exists.
 */
export async function abandonFanOut(
  mongo: Mongo,
  fanOutId: string,
  withinMs = Number.POSITIVE_INFINITY,
): Promise<{ kind: 'abandoned' } | { kind: 'unchanged' }> {
  const giveUpAt = performance.now() + withinMs;
  const abandoned = await fanOuts(mongo).updateOne(
    { _id: fanOutId, state: { $in: ['STAGING', 'ABANDONED'] } },
    { $set: { state: 'ABANDONED' } },
    { maxTimeMS: QUERY_LIMIT_MS },
  );
  if (abandoned.matchedCount !== 1) return { kind: 'unchanged' };
  for (;;) {
    if (performance.now() > giveUpAt) return { kind: 'abandoned' };
    const rows = await notifications(mongo)
      .find(
        { fanOutId },
        { projection: { ordinal: 1 }, sort: { ordinal: 1 }, limit: SWEPT_AT_ONCE, maxTimeMS: QUERY_LIMIT_MS },
      )
      .toArray();
    const last = rows.at(-1);
    if (last === undefined) break;
    // Delete by a range of the index that found the rows. With a list of ids, each row would be compared with the whole list.
    await notifications(mongo).deleteMany(
      { fanOutId, ordinal: { $lte: last.ordinal } },
      { maxTimeMS: QUERY_LIMIT_MS * 2 },
    );
  }
  await fanOuts(mongo).deleteOne({ _id: fanOutId, state: 'ABANDONED' });
  return { kind: 'abandoned' };
}

/**
 * Returns the ids of fan-outs whose process ended before it could publish or delete them (`now` in Unix milliseconds, MongoDB's
 * clock).
 */
export async function orphanedFanOuts(mongo: Mongo, now: number, limit: number): Promise<string[]> {
  const found = await fanOuts(mongo)
    .find(
      { state: { $in: ['STAGING', 'ABANDONED'] }, stageBy: { $lt: new Date(now) } },
      { projection: { _id: 1 }, hint: 'by_state', limit, maxTimeMS: QUERY_LIMIT_MS },
    )
    .toArray();
  return found.map(({ _id }) => _id);
}

/** Returns the fan-out, or null if it does not exist or is finished. */
export function findFanOut(mongo: Mongo, fanOutId: string, session: ClientSession): Promise<FanOut | null> {
  return fanOuts(mongo).findOne({ _id: fanOutId }, { ...readIn(session), maxTimeMS: QUERY_LIMIT_MS });
}

/** Returns the next rows of a fan-out after this ordinal, including rows deleted meanwhile. */
export function rowsOfFanOut(
  mongo: Mongo,
  fanOutId: string,
  { after, session }: { after: number; session: ClientSession },
): Promise<Pick<Notification, '_id' | 'userId' | 'ordinal' | 'place'>[]> {
  return notifications(mongo)
    .find(
      { fanOutId, ordinal: { $gt: after } },
      {
        ...readIn(session),
        projection: { userId: 1, ordinal: 1, place: 1 },
        sort: { ordinal: 1 },
        limit: MAX_AT_ONCE,
        maxTimeMS: QUERY_LIMIT_MS,
      },
    )
    .toArray();
}

/** Passes of a move, after which it throws. A second one is needed only if a row has moved to another shard during the first. */
const MAX_PASSES = 10;

/**
 * Moves the rows after one ordinal up to another to their inboxes; a deleted row stays deleted. The move may be repeated. It uses
 * a range of one index, so that it needs no list of ids.
 *
 * A router does not coordinate an update on several shards with the balancer: a row that changes its shard meanwhile may be left out. A read
 * finds such a row, and the move is repeated. Without it, no user would see the row once its fan-out is deleted.
 */
export async function moveToInbox(
  mongo: Mongo,
  fanOutId: string,
  { after, last }: { after: number; last: number },
): Promise<void> {
  const rows = { fanOutId, ordinal: { $gt: after, $lte: last } };
  for (let pass = 1; pass <= MAX_PASSES; pass++) {
    await notifications(mongo).updateMany(
      rows,
      [{ $set: { place: { $cond: [{ $eq: ['$place', literal(fanOutId)] }, 'INBOX', '$place'] } } }],
      { maxTimeMS: QUERY_LIMIT_MS * 2 },
    );
    const options = { projection: { _id: 1 }, maxTimeMS: QUERY_LIMIT_MS } as const;
    if ((await notifications(mongo).findOne({ ...rows, place: fanOutId }, options)) === null) return;
  }
  throw new Error(`rows of fan-out ${fanOutId} stay staged after ${MAX_PASSES} passes`);
}

/** Deletes a fan-out. Call it only after every row is in its inbox and no reader still uses an older list of fan-outs. */
export async function deleteFanOut(mongo: Mongo, fanOutId: string, session: ClientSession): Promise<void> {
  await fanOuts(mongo).deleteOne({ _id: fanOutId }, { session });
}
