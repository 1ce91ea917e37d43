import { setTimeout as delay } from 'node:timers/promises';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import type { CommandOf } from '#infra/mongo/mailbox/commands.ts';
import { FRONT_DOOR_BUDGET_MS, inTransaction } from '#infra/mongo/transaction.ts';
import { SECOND } from '#shared/kernel/time.ts';
import { type NotificationEvent, sourceEventRef } from '#shared/notification/event.ts';
import type { Notification } from '#shared/notification/notification.ts';
import { notificationEvents, notifications } from './collections.ts';
import { type Deliveries, type QueuedDelivery, queueDeliveries } from './deliveries.ts';
import { abandonFanOut, findEarlierStaging, openFanOut, publishFanOut, stageRows } from './stage-fan-out.ts';

/** Of rows that were staged in vain, as many as can be are taken away before the caller is answered (ms). */
const TAKE_BACK_WITHIN_MS = 5 * SECOND;
/** Without progress for so long, whoever stages the same event has ended or might as well have (ms). */
const STALLED_MS = 10 * SECOND;
const LOOK_AGAIN_MS = 100;
/**
 * A duplicate is refused as soon as one server knows it; what it duplicates is read once a majority does. `inTransaction` has waited for
 * that, but on one shard, which need not be the event's, and no longer than its budget: for the rest there is this (ms).
 */
const KNOWN_WITHIN_MS = 2 * SECOND;

export interface NewFanOut {
  fanOutId: string;
  /** null: rows that belong to no event. */
  event: NotificationEvent | null;
  rows: readonly Notification[];
  staged: boolean;
  /** Rows of one transaction where it is staged; MAX_AT_ONCE unless given. */
  rowsAtOnce?: number;
  /** How long another one that stages the same event may stand still before this one goes on; STALLED_MS unless given. */
  stalledMs?: number;
  now: number;
  deliveries: Deliveries;
  /** The command that settles it, where it is staged. */
  settle: CommandOf<'upkeep:fanouts'>;
}

/** `made`: what to ring for after the commit. `replayed`: the event that was there already, and nothing was made. */
type InsertedFanOut =
  | { kind: 'made'; ring: readonly QueuedDelivery[] }
  | { kind: 'replayed'; event: NotificationEvent };

/**
 * Makes the event, its rows and their delivery jobs: all of them or nothing, also where the event has been brought before, or is
 * being brought by somebody else now.
 */
export async function insertFanOut(mongo: Mongo, wanted: NewFanOut): Promise<InsertedFanOut> {
  try {
    return await (wanted.staged ? insertStaged(mongo, wanted) : insertAtOnce(mongo, wanted));
  } catch (error) {
    // Not by the name of the index: what a bulk write says of a duplicate key does not always tell it.
    const winner = isDuplicateKey(error) ? await findWinner(mongo, wanted.event) : null;
    if (winner === null) throw error;
    return { kind: 'replayed', event: winner };
  }
}

async function insertAtOnce(mongo: Mongo, { event, rows, deliveries, now }: NewFanOut): Promise<InsertedFanOut> {
  const ring = await inTransaction(mongo, FRONT_DOOR_BUDGET_MS, async (session) => {
    // First: who comes second is told before a row is written.
    if (event !== null) await notificationEvents(mongo).insertOne({ ...event }, { session });
    if (rows.length > 0) await notifications(mongo).insertMany([...rows], { session });
    return queueDeliveries(mongo, rows, { ...deliveries, now, session });
  });
  return { kind: 'made', ring };
}

/** Its deliveries are queued by the command that settles it. */
async function insertStaged(mongo: Mongo, wanted: NewFanOut): Promise<InsertedFanOut> {
  const { fanOutId, rows, now, event, settle } = wanted;
  const source = event === null ? null : sourceEventRef(event);
  // Best effort: what stays is swept away later, and nobody sees it meanwhile.
  const takeBack = () => abandonFanOut(mongo, fanOutId, TAKE_BACK_WITHIN_MS).catch(() => undefined);
  try {
    await openFanOut(mongo, { fanOutId, source, rows: rows.length, now });
    const earlier = source === null ? null : await awaitEarlier(mongo, source, wanted);
    if (earlier !== null) {
      await takeBack();
      return { kind: 'replayed', event: earlier };
    }
    await stageRows(mongo, wanted);
    await publishFanOut(mongo, wanted);
    return { kind: 'made', ring: [{ queue: settle.queue, id: settle._id }] };
  } catch (error) {
    await takeBack();
    throw error;
  }
}

/**
 * Waits while an earlier fan-out of the same event gets on, and gives that event once it is there. It only saves the work of staging the
 * same rows in vain: which one wins, the publication decides.
 */
async function awaitEarlier(
  mongo: Mongo,
  source: string,
  { fanOutId, event, stalledMs = STALLED_MS }: NewFanOut,
): Promise<NotificationEvent | null> {
  let progress = '';
  for (let since = performance.now(); ; await delay(LOOK_AGAIN_MS)) {
    const earlier = await findEarlierStaging(mongo, { fanOutId, source });
    // After the look for one that stages: an event that was published in between is found.
    const known = await findSame(mongo, event);
    if (known !== null || earlier === null) return known;
    const seen = `${earlier._id} ${earlier.staged}`;
    if (seen !== progress) since = performance.now();
    else if (performance.now() - since > stalledMs) return null;
    progress = seen;
  }
}

/** The event that refused ours. */
async function findWinner(mongo: Mongo, event: NotificationEvent | null): Promise<NotificationEvent | null> {
  const giveUpAt = performance.now() + KNOWN_WITHIN_MS;
  for (;;) {
    const winner = await findSame(mongo, event);
    if (winner !== null || event?.replayable !== true || performance.now() > giveUpAt) return winner;
    await delay(LOOK_AGAIN_MS);
  }
}

async function findSame(mongo: Mongo, event: NotificationEvent | null): Promise<NotificationEvent | null> {
  if (event === null || event.sourceService === null || event.sourceEventId === null) return null;
  const { sourceService, sourceEventId } = event;
  return findEvent(mongo, { sourceService, sourceEventId });
}

/** The event that a producer has sent under this pair before, whichever route brought it. */
export function findEvent(
  mongo: Mongo,
  { sourceService, sourceEventId }: { sourceService: string; sourceEventId: string },
): Promise<NotificationEvent | null> {
  return notificationEvents(mongo).findOne(
    { sourceService, sourceEventId, replayable: true },
    { maxTimeMS: QUERY_LIMIT_MS },
  );
}

/** Ids of the rows that a fan-out made, in their order; those that were deleted since are named too. */
export async function idsOfFanOut(mongo: Mongo, fanOutId: string): Promise<string[]> {
  const rows = await notifications(mongo)
    .find({ fanOutId }, { projection: { _id: 1 }, sort: { ordinal: 1 }, maxTimeMS: QUERY_LIMIT_MS })
    .toArray();
  return rows.map(({ _id }) => _id);
}
