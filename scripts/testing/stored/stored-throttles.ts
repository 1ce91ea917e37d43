import type { Collection } from 'mongodb';
import type { ThrottleRow } from '#infra/mongo/auth/collections.ts';
import { throttleKey } from '#infra/mongo/auth/throttle.ts';
import { HOUR } from '#shared/kernel/time.ts';
import type { Cluster } from '#testing/processes/cluster.ts';

/** The throttles of a cluster's accounts. Tests move their times, because the shortest wait of one second ends while a test works. */
export interface StoredThrottles {
  /** Moves the account's throttle `ms` into the past, as if that time had passed since the last login attempt. */
  pass(email: string, ms: number): Promise<void>;
  /** Moves the account's throttle an hour ahead, so that its wait outlasts the test. Returns the length of the wait in milliseconds. */
  hold(email: string): Promise<number>;
}

export function throttlesBy({ mongo }: Pick<Cluster, 'mongo'>): StoredThrottles {
  const throttles: Collection<ThrottleRow> = mongo.collection('auth_throttles');

  async function pass(email: string, ms: number): Promise<ThrottleRow> {
    const row = await throttles.findOne({ _id: throttleKey(email) });
    if (row === null) throw new Error(`${email} has no throttle`);
    const earlier = (date: Date) => new Date(date.getTime() - ms);
    const blockedUntil = row.blockedUntil && earlier(row.blockedUntil);
    await throttles.updateOne({ _id: row._id }, { $set: { blockedUntil, lastTryAt: earlier(row.lastTryAt) } });
    return row;
  }

  return {
    pass: async (email, ms) => void (await pass(email, ms)),
    async hold(email) {
      const { blockedUntil, lastTryAt } = await pass(email, -HOUR);
      return Number(blockedUntil) - lastTryAt.getTime();
    },
  };
}
