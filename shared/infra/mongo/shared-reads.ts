import type { ClientSession } from 'mongodb';
import { gather, type Part } from '#infra/process/gather.ts';
import { readForAll } from './causal-read.ts';
import { isUnanswered } from './faults.ts';

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

/**
 * Returns a read that its callers share although each asks for something else. `read` returns what it has found in the order of what was asked
 * for, and begins after each caller has asked. If it fails although the server has answered, each caller reads alone. A shard that is down thus
 * fails only those whose rows it holds.
 */
export function shareLookups<Wanted, Found>(
  read: (wanted: readonly Wanted[]) => Promise<readonly Found[]>,
): (wanted: Wanted) => Promise<Found> {
  const alone = async (wanted: Wanted) => (await read([wanted]))[0] as Found;
  return gather(async (asked: readonly Wanted[]): Promise<readonly Part<Found>[]> => {
    if (asked.length === 1) return asked.map(alone);
    try {
      return await read(asked);
    } catch (error) {
      if (isUnanswered(error)) throw error;
      return asked.map(alone);
    }
  });
}

interface Asked<Wanted> {
  readonly wanted: Wanted;
  readonly session: ClientSession | undefined;
}
