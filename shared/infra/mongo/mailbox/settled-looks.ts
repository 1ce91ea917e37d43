import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import type { Queue } from '#shared/kernel/command.ts';
import { mailboxOf } from './mailbox.ts';

/** Looks after commands that front doors wait for. */
export interface SettledLooks {
  /** Whether its worker has finished with it, one way or the other; false also for an unknown id. Rejects in an outage. */
  isSettled(queue: Queue, id: string): Promise<boolean>;
}

interface Look {
  queue: Queue;
  ids: Set<string>;
  settled: PromiseWithResolvers<ReadonlySet<string>>;
}

/** Ids in one query; more go into the next. */
const MOST_IDS = 500;

/**
 * One query at a time for everybody who asks: whoever asks while it is under way is in the next one. Two thousand
 * students who wait for a late grade would otherwise send MongoDB thousands of queries a second, and nobody else's
 * answers would get through.
 */
export function openSettledLooks(mongo: Mongo): SettledLooks {
  const waiting: Look[] = [];
  let isLooking = false;

  async function look(): Promise<void> {
    isLooking = true;
    // Those who ask in the same turn come along.
    await new Promise(setImmediate);
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      await settledOf(mongo, next).then(next.settled.resolve, next.settled.reject);
    }
    isLooking = false;
  }

  return {
    async isSettled(queue, id) {
      let mine = waiting.find((open) => open.queue === queue && open.ids.size < MOST_IDS);
      if (mine === undefined) {
        mine = { queue, ids: new Set(), settled: Promise.withResolvers() };
        waiting.push(mine);
      }
      mine.ids.add(id);
      if (!isLooking) void look();
      return (await mine.settled.promise).has(id);
    },
  };
}

async function settledOf(mongo: Mongo, { queue, ids }: Look): Promise<ReadonlySet<string>> {
  const found = await mailboxOf(mongo, queue)
    .find({ _id: { $in: [...ids] } }, { projection: { status: 1 }, maxTimeMS: QUERY_LIMIT_MS })
    .toArray();
  return new Set(found.filter(({ status }) => status !== 'PENDING').map(({ _id }) => _id));
}
