import type { Collection } from 'mongodb';
import type { ThrottleRow } from '#infra/mongo/auth/collections.ts';
import { pairOf } from '#infra/mongo/auth/known-pairs.ts';
import { throttleKey } from '#infra/mongo/auth/throttle.ts';
import { HOUR } from '#shared/kernel/time.ts';
import type { Cluster } from '#testing/processes/cluster.ts';

/** The throttles of a cluster's accounts. Tests move their times, because the shortest wait of one second ends while a test works. */
export interface StoredThrottles {
  /** Moves the account's throttle `ms` into the past, as if that time had passed since the last login attempt. */
  pass(email: string, ms: number): Promise<void>;
  /** Moves the account's throttle an hour ahead, so that its wait outlasts the test. Returns the length of the wait in milliseconds. */
  hold(email: string): Promise<number>;
  /** Does the same to the counts of an account that signed in from this address. */
  holdPair(email: string, address: string): Promise<number>;
}

export function throttlesBy({ mongo }: Pick<Cluster, 'mongo'>): StoredThrottles {
  const throttles: Collection<ThrottleRow> = mongo.collection('auth_throttles');
  const pairs: Collection<ThrottleRow> = mongo.collection('auth_known_pairs');

  async function pass(rows: Collection<ThrottleRow>, id: string, ms: number): Promise<ThrottleRow> {
    const row = await rows.findOne({ _id: id });
    if (row === null) throw new Error(`${rows.collectionName} has no ${id}`);
    const earlier = (date: Date) => new Date(date.getTime() - ms);
    const blockedUntil = row.blockedUntil && earlier(row.blockedUntil);
    await rows.updateOne({ _id: row._id }, { $set: { blockedUntil, lastTryAt: earlier(row.lastTryAt) } });
    return row;
  }

  async function hold(rows: Collection<ThrottleRow>, id: string): Promise<number> {
    const { blockedUntil, lastTryAt } = await pass(rows, id, -HOUR);
    return Number(blockedUntil) - lastTryAt.getTime();
  }

  return {
    pass: async (email, ms) => void (await pass(throttles, throttleKey(email), ms)),
    hold: (email) => hold(throttles, throttleKey(email)),
    holdPair: (email, address) => hold(pairs, pairOf(email, address).key),
  };
}
