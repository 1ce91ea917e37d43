import type { ClientSession, Collection, Filter, OptionalUnlessRequiredId } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import type { Queue } from '#shared/kernel/command.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { type CommandOf, type Commands, MAILBOX_OF } from './commands.ts';

/** The collection of one queue's commands. */
export function mailboxOf<Q extends Queue>(mongo: Mongo, queue: Q): Collection<CommandOf<Q>> {
  return mongo.db.collection<CommandOf<Q>>(MAILBOX_OF[queue]);
}

/** Writes a command inside the caller's transaction; a live one with the same key is a duplicate key error. */
export async function postCommandIn<Q extends Queue>(
  mongo: Mongo,
  session: ClientSession,
  command: CommandOf<Q>,
): Promise<void> {
  await mailboxOf(mongo, command.queue).insertOne(command as OptionalUnlessRequiredId<CommandOf<Q>>, { session });
}

/** The same for many commands of one mailbox, at once. */
export async function postCommandsIn<Q extends Queue>(
  mongo: Mongo,
  session: ClientSession,
  commands: readonly CommandOf<Q>[],
): Promise<void> {
  const [first] = commands;
  if (first === undefined) return;
  await mailboxOf(mongo, first.queue).insertMany(commands as OptionalUnlessRequiredId<CommandOf<Q>>[], { session });
}

/** Writes a command, or finds the live one with the same key: the first writer wins and everybody sees its command. */
export async function postCommand<Q extends Queue>(
  mongo: Mongo,
  command: CommandOf<Q>,
): Promise<{ command: CommandOf<Q>; created: boolean }> {
  const { queue, key } = command;
  // Again: the live command that stood in the way may be rejected, and its key freed, between insert and read.
  for (let round = 0; ; round++) {
    try {
      await mailboxOf(mongo, queue).insertOne(command as OptionalUnlessRequiredId<CommandOf<Q>>);
      return { command, created: true };
    } catch (error) {
      if (!isDuplicateKey(error, ['key']) || round === 5) throw error;
    }
    const standing = await findLive(mongo, queue, key);
    if (standing !== null) return { command: standing, created: false };
  }
}

/** The live command of this key: waiting, running, done or dead, but not rejected. */
export async function findLive<Q extends Queue>(
  mongo: Mongo,
  queue: Q,
  key: string,
  session?: ClientSession,
): Promise<CommandOf<Q> | null> {
  const options = session === undefined ? {} : { session };
  return mailboxOf(mongo, queue).findOne<CommandOf<Q>>({ key, live: true } as Filter<CommandOf<Q>>, options);
}

/** The command as it stands, or null. */
export async function readCommand<Q extends Queue>(mongo: Mongo, queue: Q, id: string): Promise<CommandOf<Q> | null> {
  return mailboxOf(mongo, queue).findOne<CommandOf<Q>>({ _id: id });
}

/** How a command has ended, for its sender. */
export type CommandEnd<Q extends Queue> =
  | { kind: 'pending' }
  | { kind: 'done'; result: Commands[Q]['result'] }
  | { kind: 'rejected'; rejection: Rejection }
  | { kind: 'dead' };

/** Reads how a command has ended; one that is gone counts as dead. */
export async function readEnd<Q extends Queue>(
  mongo: Mongo,
  { queue, _id }: { queue: Q; _id: string },
): Promise<CommandEnd<Q>> {
  const command = await readCommand(mongo, queue, _id);
  if (command === null || command.status === 'DEAD') return { kind: 'dead' };
  const { status, result } = command;
  if (status === 'PENDING') return { kind: 'pending' };
  if (status === 'REJECTED') {
    if (!isRejection(result)) throw new Error(`command ${_id} is rejected without a reason`);
    return { kind: 'rejected', rejection: result };
  }
  if (result === null || isRejection(result)) throw new Error(`command ${_id} is ${status} and has no result`);
  return { kind: 'done', result };
}

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
