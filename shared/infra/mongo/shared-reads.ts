import type { ClientSession } from 'mongodb';
import { gather } from '#infra/process/gather.ts';
import { readForAll } from './causal-read.ts';

/**
 * Returns a read that its callers share if they ask for the same at the same moment. It begins after each of them has asked, and shows
 * what the session of each has seen. `keyOf` names what is asked for.
 */
export function shareReads<Wanted, Found>(
  keyOf: (wanted: Wanted) => string,
  read: (wanted: Wanted, session?: ClientSession) => Promise<Found>,
): (wanted: Wanted, session?: ClientSession) => Promise<Found> {
  const together = gather(async (asked: readonly Asked<Wanted>[]) => {
    const same = Map.groupBy(asked, ({ wanted }) => keyOf(wanted));
    const reads = new Map([...same].map(([key, group]) => [key, readFor(group)]));
    // A read that fails, as of an exam whose shard is down, fails for its own callers alone.
    await Promise.allSettled(reads.values());
    return asked.map(({ wanted }) => reads.get(keyOf(wanted)) as Promise<Found>);
  });

  async function readFor(group: readonly Asked<Wanted>[]): Promise<Found> {
    const [first] = group;
    if (first === undefined) throw new Error('a read that nobody asked for');
    return readForAll(group, (session) => read(first.wanted, session));
  }

  return (wanted, session) => together({ wanted, session });
}

interface Asked<Wanted> {
  readonly wanted: Wanted;
  readonly session: ClientSession | undefined;
}
