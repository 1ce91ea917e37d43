import { setTimeout as delay } from 'node:timers/promises';
import type { ClientSession } from 'mongodb';
import { inCausalOrder, readIn } from '#infra/mongo/causal-read.ts';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import type { CommandOf } from '#infra/mongo/mailbox/commands.ts';
import { postCommandsIn } from '#infra/mongo/mailbox/mailbox.ts';
import { FRONT_DOOR_BUDGET_MS, inTransaction } from '#infra/mongo/transaction.ts';
import type { CommandRef } from '#shared/kernel/command.ts';
import { SECOND } from '#shared/kernel/time.ts';
import { type NotificationEvent, type ReplayKey, replayKeyOf, replayKeyText } from '#shared/notification/event.ts';
import type { Notification } from '#shared/notification/notification.ts';
import { notificationEvents, notifications } from './collections.ts';
import { type Deliveries, type DeliveryJobRow, deliveryJobs, ringsOf } from './deliveries.ts';
import { abandonFanOut, findEarlierStaging, openFanOut, publishFanOut, stageRows } from './stage-fan-out.ts';

/** Time limit (ms) for deleting rows that were staged in vain before the caller is answered. The sweep deletes the rest. */
const CLEAN_UP_WITHIN_MS = 5 * SECOND;
/** An earlier fan-out of the same event that makes no progress for this long (ms) is treated as dead. */
const STALLED_MS = 10 * SECOND;
const POLL_MS = 100;
/**
 * Time limit (ms) for reading the event that made ours a duplicate. One server is enough to refuse a duplicate, but the earlier
 * event is readable only after a majority has it. `inTransaction` has waited for a majority, but on one shard, which need not be
 * the event's, and only within its budget.
 */
const READABLE_WITHIN_MS = 2 * SECOND;

export interface NewFanOut {
  fanOutId: string;
  /** null: the rows belong to no event. */
  event: NotificationEvent | null;
  rows: readonly Notification[];
  staged: boolean;
  /** Rows per chunk if the fan-out is staged; default MAX_AT_ONCE. */
  rowsAtOnce?: number;
  /** Time (ms) without progress after which an earlier fan-out of the same event is no longer waited for; default STALLED_MS. */
  stalledMs?: number;
  now: number;
  deliveries: Deliveries;
  /** The command that finishes the fan-out; posted only if it is staged. */
  finish: CommandOf<'upkeep:fanouts'>;
  /** The command that sends the event to the audit service. Absent: the service is not configured, or there is no event. */
  audit?: CommandOf<'upkeep:audit'>;
}

/** `made`: the commands to ring for after the commit. `replayed`: the event existed already, and nothing was made. */
export type InsertedFanOut =
  | { kind: 'made'; ring: readonly CommandRef[] }
  | { kind: 'replayed'; event: NotificationEvent };

/**
 * Stores the event, its rows and their delivery jobs, all or nothing. If the event was inserted before, or is being inserted by
 * another process, the earlier event is returned.
 */
export async function insertFanOut(
  mongo: Mongo,
  wanted: NewFanOut,
  jobs: readonly DeliveryJobRow[] = jobsOf(wanted),
): Promise<InsertedFanOut> {
  try {
    return await (wanted.staged ? insertStaged(mongo, wanted) : insertAtOnce(mongo, wanted, jobs));
  } catch (error) {
    // Any duplicate key counts: the error of a bulk write does not always name the index.
    const winner = isDuplicateKey(error) ? await findWinner(mongo, wanted.event) : null;
    if (winner === null) throw error;
    return { kind: 'replayed', event: winner };
  }
}

/** Returns the delivery jobs that a fan-out stores with its rows. Those of staged rows are queued when the fan-out is finished. */
export function jobsOf({ rows, staged, deliveries, now }: NewFanOut): DeliveryJobRow[] {
  return staged ? [] : deliveryJobs(rows, { ...deliveries, now });
}

async function insertAtOnce(mongo: Mongo, wanted: NewFanOut, jobs: readonly DeliveryJobRow[]): Promise<InsertedFanOut> {
  await inTransaction(mongo, FRONT_DOOR_BUDGET_MS, (session) => insertTogether(mongo, [{ wanted, jobs }], session));
  return { kind: 'made', ring: ringsOf(jobs) };
}

/** Inserts fan-outs that are not staged, in the caller's transaction. */
export async function insertTogether(
  mongo: Mongo,
  group: readonly { wanted: NewFanOut; jobs: readonly DeliveryJobRow[] }[],
  session: ClientSession,
): Promise<void> {
  const unordered = { session, ordered: false };
  const events = group.flatMap(({ wanted }) => (wanted.event === null ? [] : { ...wanted.event }));
  const rows = group.flatMap(({ wanted }) => wanted.rows);
  // Insert the events first, so that a concurrent duplicate fails before its rows are written.
  if (events.length > 0) await notificationEvents(mongo).insertMany(events, unordered);
  if (rows.length > 0) await notifications(mongo).insertMany(rows, unordered);
  await postCommandsIn(
    mongo,
    session,
    group.flatMap(({ wanted }) => wanted.audit ?? []),
  );
  await postCommandsIn(
    mongo,
    session,
    group.flatMap(({ jobs }) => jobs),
  );
}

/** Stages the rows and then publishes them. The command that finishes the fan-out queues the deliveries. */
async function insertStaged(mongo: Mongo, wanted: NewFanOut): Promise<InsertedFanOut> {
  const { fanOutId, rows, now, event, finish } = wanted;
  const key = event === null ? null : replayKeyOf(event);
  const source = key === null ? null : replayKeyText(key);
  // Best effort: the sweep deletes remaining rows later, and no reader sees them meanwhile.
  const cleanUp = () => abandonFanOut(mongo, fanOutId, CLEAN_UP_WITHIN_MS).catch(() => undefined);
  try {
    await openFanOut(mongo, { fanOutId, source, rows: rows.length, now });
    const earlier = source === null ? null : await awaitEarlier(mongo, source, wanted);
    if (earlier !== null) {
      await cleanUp();
      return { kind: 'replayed', event: earlier };
    }
    await stageRows(mongo, wanted);
    await publishFanOut(mongo, wanted);
    return { kind: 'made', ring: [finish] };
  } catch (error) {
    await cleanUp();
    throw error;
  }
}

/**
 * Waits while an earlier fan-out of the same event makes progress. Returns the event once it is stored, or null if no earlier
 * fan-out is staging or it has stalled. Waiting only avoids staging the same rows in vain: the publication decides which fan-out
 * wins.
 */
async function awaitEarlier(
  mongo: Mongo,
  source: string,
  { fanOutId, event, stalledMs = STALLED_MS }: NewFanOut,
): Promise<NotificationEvent | null> {
  let progress = '';
  for (let since = performance.now(); ; await delay(POLL_MS)) {
    const earlier = await findEarlierStaging(mongo, { fanOutId, source });
    // Query the event after the staging fan-out, so that an event published in between is found.
    const known = await findSame(mongo, event);
    if (known !== null || earlier === null) return known;
    const seen = `${earlier._id} ${earlier.staged}`;
    if (seen !== progress) since = performance.now();
    else if (performance.now() - since > stalledMs) return null;
    progress = seen;
  }
}

/** Returns the earlier event that made ours a duplicate, or null. Polls up to READABLE_WITHIN_MS until that event is readable. */
async function findWinner(mongo: Mongo, event: NotificationEvent | null): Promise<NotificationEvent | null> {
  const giveUpAt = performance.now() + READABLE_WITHIN_MS;
  for (;;) {
    const winner = await findSame(mongo, event);
    if (winner !== null || event === null || replayKeyOf(event) === null || performance.now() > giveUpAt) return winner;
    await delay(POLL_MS);
  }
}

async function findSame(mongo: Mongo, event: NotificationEvent | null): Promise<NotificationEvent | null> {
  const key = event === null ? null : replayKeyOf(event);
  return key === null ? null : findEvent(mongo, key);
}

/** Returns a stored event by its id, or null. */
export function findEventById(mongo: Mongo, _id: string, session: ClientSession): Promise<NotificationEvent | null> {
  return notificationEvents(mongo).findOne({ _id }, { ...readIn(session), maxTimeMS: QUERY_LIMIT_MS });
}

/** Returns the event that was stored under this key before, or null. An actor's key finds only events of that actor. */
export async function findEvent(mongo: Mongo, key: ReplayKey): Promise<NotificationEvent | null> {
  const [found = null] = await findEvents(mongo, [key]);
  return found;
}

/** Does the same for many keys, by one command. Returns the events in the order of the keys. */
export async function findEvents(mongo: Mongo, keys: readonly ReplayKey[]): Promise<(NotificationEvent | null)[]> {
  // Each branch names a whole key, so that each is a point of its index, whichever kind of key it is.
  const $or = keys.map(({ sourceService, sourceEventId, actorId }) => ({
    sourceService,
    sourceEventId,
    ...(actorId === null ? { replayable: true } : { actorId, replayableByActor: true }),
  }));
  const [first = {}, ...others] = $or;
  const found = await notificationEvents(mongo)
    .find(others.length === 0 ? first : { $or }, { maxTimeMS: QUERY_LIMIT_MS })
    .toArray();
  const byKey = new Map(found.map((event) => [JSON.stringify(replayKeyOf(event)), event]));
  return keys.map(({ sourceService, sourceEventId, actorId }) => {
    return byKey.get(JSON.stringify({ sourceService, sourceEventId, actorId } satisfies ReplayKey)) ?? null;
  });
}

/**
 * Returns the ids of the rows that the fan-out of a stored event made, in their order, including rows deleted since. The second read waits
 * for the commit of the event on the shards of the rows.
 */
export async function idsOfFanOut(mongo: Mongo, fanOutId: string): Promise<string[]> {
  const options = { projection: { _id: 1 }, maxTimeMS: QUERY_LIMIT_MS } as const;
  const rows = await inCausalOrder(mongo, async (session) => {
    await notificationEvents(mongo).findOne({ _id: fanOutId }, { ...readIn(session), ...options });
    return notifications(mongo)
      .find({ fanOutId }, { ...readIn(session), ...options, sort: { ordinal: 1 } })
      .toArray();
  });
  return rows.map(({ _id }) => _id);
}
