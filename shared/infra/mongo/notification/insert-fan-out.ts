import type { Channel } from '../../../notification/delivery.ts';
import type { NotificationEvent } from '../../../notification/event.ts';
import type { Notification } from '../../../notification/notification.ts';
import type { Mongo } from '../connect.ts';
import { isDuplicateKey } from '../faults.ts';
import { FRONT_DOOR_BUDGET_MS, inTransaction } from '../transaction.ts';
import { notificationEvents, notifications } from './collections.ts';
import { findEvent } from './find-event.ts';
import { type QueuedDelivery, queueDeliveries } from './queue-deliveries.ts';
import { abandonFanOut, publishFanOut, type Settle, stageFanOut } from './stage-fan-out.ts';

/** How delivery jobs of new rows are made. */
export interface Deliveries {
  channels: ReadonlySet<Channel>;
  maxAttempts: number;
}

export interface NewFanOut {
  fanOutId: string;
  /** null: rows that belong to no event. */
  event: NotificationEvent | null;
  rows: readonly Notification[];
  staged: boolean;
  /** Rows of one transaction where it is staged; MAX_AT_ONCE unless given. */
  rowsAtOnce?: number;
  now: number;
  deliveries: Deliveries;
  /** The command that settles it, where it is staged. */
  settle: Settle;
}

/** What to ring for after the commit, or the event that was there already: then nothing was made. */
export type InsertedFanOut = { ring: readonly QueuedDelivery[] } | { replayOf: NotificationEvent };

/**
 * Makes the event, its rows and their delivery jobs: all of them or nothing, also where the event has been brought before, or is
 * being brought by somebody else now.
 */
export async function insertFanOut(mongo: Mongo, wanted: NewFanOut): Promise<InsertedFanOut> {
  try {
    return { ring: await (wanted.staged ? insertStaged(mongo, wanted) : insertAtOnce(mongo, wanted)) };
  } catch (error) {
    // Not by the name of the index: what a bulk write says of a duplicate key does not always tell it.
    const replayOf = isDuplicateKey(error) ? await findSame(mongo, wanted.event) : null;
    if (replayOf === null) throw error;
    return { replayOf };
  }
}

async function findSame(mongo: Mongo, event: NotificationEvent | null): Promise<NotificationEvent | null> {
  if (event === null || event.sourceService === null || event.sourceEventId === null) return null;
  const { sourceService, sourceEventId } = event;
  return findEvent(mongo, { sourceService, sourceEventId });
}

function insertAtOnce(mongo: Mongo, { event, rows, deliveries, now }: NewFanOut): Promise<QueuedDelivery[]> {
  return inTransaction(mongo, FRONT_DOOR_BUDGET_MS, async (session) => {
    // First: who comes second is told before a row is written.
    if (event !== null) await notificationEvents(mongo).insertOne({ ...event }, { session });
    if (rows.length > 0) await notifications(mongo).insertMany([...rows], { session });
    return queueDeliveries(mongo, rows, { ...deliveries, now, session });
  });
}

/** Its deliveries are queued by the command that settles it. */
async function insertStaged(mongo: Mongo, wanted: NewFanOut): Promise<QueuedDelivery[]> {
  try {
    await stageFanOut(mongo, wanted);
    await publishFanOut(mongo, wanted);
    return [{ queue: wanted.settle.queue, id: wanted.settle._id }];
  } catch (error) {
    // Best effort: what stays is swept away later, and nobody sees it meanwhile.
    await abandonFanOut(mongo, wanted.fanOutId).catch(() => undefined);
    throw error;
  }
}
