import { setTimeout } from 'node:timers/promises';
import type { ClientSession, Collection } from 'mongodb';
import type { Log } from '#infra/log/log.ts';
import { readIn } from '#infra/mongo/causal-read.ts';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { actAsOperator, type OperatorAct } from '#infra/mongo/operator-audit.ts';
import type { EventType } from '#shared/kernel/event-out.ts';
import { type Now, SECOND } from '#shared/kernel/time.ts';
import { MAX_SUBSCRIPTIONS, type Subscription } from '#shared/operations/subscription.ts';

export const SUBSCRIPTIONS = 'event_subscriptions';

const BOUND = { maxTimeMS: QUERY_LIMIT_MS };

/** Returns the collection of the subscriptions. */
export const subscriptions = (mongo: Mongo): Collection<Subscription> => mongo.db.collection(SUBSCRIPTIONS);

/** Inserts a subscription. Returns false if there are MAX_SUBSCRIPTIONS already; requests at the same moment may exceed it by a few. */
export function insertSubscription(mongo: Mongo, row: Subscription, act: OperatorAct): Promise<boolean> {
  return actAsOperator(mongo, act, async (session) => {
    const count = await subscriptions(mongo).countDocuments({}, { session });
    if (count >= MAX_SUBSCRIPTIONS) return { result: false, line: null };
    await subscriptions(mongo).insertOne(row, { session });
    return { result: true, line: lineOf('create', row) };
  });
}

/** Returns all subscriptions, oldest first. */
export function listSubscriptions(mongo: Mongo): Promise<Subscription[]> {
  return subscriptions(mongo)
    .find({}, BOUND)
    .sort({ _id: 1 })
    .limit(MAX_SUBSCRIPTIONS * 2)
    .toArray();
}

/** Returns a subscription, or null if it does not exist. */
export function findSubscription(mongo: Mongo, _id: string, session?: ClientSession): Promise<Subscription | null> {
  return subscriptions(mongo).findOne({ _id }, { ...BOUND, ...readIn(session) });
}

/** A new secret, and the one that it replaces. */
export interface Rotation {
  from: string;
  fields: Pick<Subscription, 'secret' | 'previousSecret' | 'previousUntil'>;
}

/**
 * Changes a subscription. Returns it as it is afterwards, or null if it does not exist. The secret stays if another rotation has replaced it
 * since it was read: that rotation counts for both, so that the secret before them still signs.
 */
export function changeSubscription(
  mongo: Mongo,
  _id: string,
  changes: Partial<Subscription>,
  rotation: Rotation | null,
  act: OperatorAct,
): Promise<Subscription | null> {
  return actAsOperator(mongo, act, async (session) => {
    const options = { session, returnDocument: 'after' as const };
    const found = rotation === null ? null : await subscriptions(mongo).findOne({ _id }, { session });
    const secrets = rotation !== null && found?.secret === rotation.from ? rotation.fields : {};
    const changed = await subscriptions(mongo).findOneAndUpdate({ _id }, { $set: { ...changes, ...secrets } }, options);
    return { result: changed, line: changed === null ? null : lineOf('change', changed) };
  });
}

/** Deletes a subscription. Returns false if it does not exist. Messages that wait for it are dropped when they run. */
export function deleteSubscription(mongo: Mongo, _id: string, act: OperatorAct): Promise<boolean> {
  return actAsOperator(mongo, act, async (session) => {
    const gone = await subscriptions(mongo).findOne({ _id }, { session });
    if (gone !== null) await subscriptions(mongo).deleteOne({ _id }, { session });
    return { result: gone !== null, line: gone === null ? null : lineOf('delete', gone) };
  });
}

function lineOf(act: 'create' | 'change' | 'delete', { _id, url, types, state }: Subscription) {
  // Path and query of an address may contain a secret of the receiver.
  const detail = { origin: new URL(url).origin, types: types.join(' '), state };
  return { action: `subscription.${act}`, subject: _id, detail } as const;
}

/** Stores what a failed or a successful message changes, unless an operator has changed the subscription since it was read. */
export async function noteMessageEnd(
  mongo: Mongo,
  { _id, updatedAt }: Pick<Subscription, '_id' | 'updatedAt'>,
  changes: Partial<Subscription>,
): Promise<boolean> {
  const written = await subscriptions(mongo).updateOne({ _id, updatedAt, state: 'ACTIVE' }, { $set: changes }, BOUND);
  return written.modifiedCount === 1;
}

/** Returns the active subscriptions to a type of event. */
export function activeSubscriptions(mongo: Mongo, type: EventType, session: ClientSession): Promise<Subscription[]> {
  return subscriptions(mongo)
    .find({ state: 'ACTIVE', types: type }, { ...BOUND, ...readIn(session) })
    .toArray();
}

/** Age at which a list that is in use is read again, in the background. */
const REFRESH_MS = 2.5 * SECOND;
/** Age from which a change waits for a newer list: the process has just started, or has made no change for that long. */
const KEPT_MS = 5 * SECOND;
/** Upper bound of that wait. */
const WAIT_MS = 250;

/** The types of events that an active subscription wants. */
export interface Wanted {
  /** Returns true if a change has to be published. A new subscription counts after five seconds at the latest. Never throws. */
  wants(type: EventType): Promise<boolean>;
}

/**
 * Opens the list of wanted types of this process. One statement reads it for all callers, and only a change causes a read. A read that fails
 * or is slow leaves the last known list valid, which is empty at first; no change waits again until a read has succeeded.
 */
export function openWanted(mongo: Mongo, now: Now, log: Pick<Log, 'warn'>): Wanted {
  let known: ReadonlySet<EventType> = new Set();
  let [readAt, triedAt] = [Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY];
  let reading: Promise<void> | undefined;
  let isFailing = false;
  const isPast = (since: number, ageMs: number) => now() - since >= ageMs || now() < since;

  async function read(): Promise<void> {
    const at = now();
    triedAt = at;
    try {
      const rows = await subscriptions(mongo)
        .find({ state: 'ACTIVE' }, { ...BOUND, projection: { _id: 0, types: 1 } })
        .toArray();
      known = new Set(rows.flatMap(({ types }) => types));
      readAt = at;
      isFailing = false;
    } catch (err) {
      failed(err);
    }
  }

  function failed(err: unknown): void {
    if (!isFailing) log.warn({ err }, 'reading the subscriptions to events failed; the last known ones count');
    isFailing = true;
  }

  return {
    async wants(type) {
      if (reading === undefined && isPast(triedAt, REFRESH_MS))
        reading = read().finally(() => {
          reading = undefined;
        });
      if (reading !== undefined && !isFailing && isPast(readAt, KEPT_MS)) {
        const inTime = await Promise.race([reading.then(() => true), setTimeout(WAIT_MS, false, { ref: false })]);
        if (!inTime) failed(new Error(`the read has no reply after ${WAIT_MS} ms`));
      }
      return known.has(type);
    },
  };
}
