import {
  type ClientSession,
  type Collection,
  type Filter,
  MongoServerError,
  type OptionalUnlessRequiredId,
} from 'mongodb';
import { readIn } from '#infra/mongo/causal-read.ts';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import { msOf, NOW_MS, nowPlus } from '#infra/mongo/guarded-update.ts';
import type { CommandRef, Queue } from '#shared/kernel/command.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { type CommandOf, type Commands, MAILBOX_OF } from './commands.ts';

/** Returns the collection of one queue's commands. */
export function mailboxOf<Q extends Queue>(mongo: Mongo, queue: Q): Collection<CommandOf<Q>> {
  return mongo.db.collection<CommandOf<Q>>(MAILBOX_OF[queue]);
}

/**
 * Returns no rows for a read that names an index of the newest schema. The tool of an operator may read a database that the release has not
 * migrated yet. No process stores such rows there.
 */
export function noneBeforeMigration(error: unknown): never[] {
  if (error instanceof MongoServerError && error.code === BAD_VALUE && error.message.includes('hint')) return [];
  throw error;
}

const BAD_VALUE = 2;

/** Inserts a command in the caller's transaction. Throws a duplicate key error if a live command has the same key. */
export async function postCommandIn<Q extends Queue>(
  mongo: Mongo,
  session: ClientSession,
  command: CommandOf<Q>,
): Promise<void> {
  await mailboxOf(mongo, command.queue).insertOne(command as OptionalUnlessRequiredId<CommandOf<Q>>, { session });
}

/**
 * Inserts many commands of one mailbox in the caller's transaction. Throws as `postCommandIn` does. They are unordered, because a router
 * would send ordered ones to their shards one after the other.
 */
export async function postCommandsIn<Q extends Queue>(
  mongo: Mongo,
  session: ClientSession,
  commands: readonly CommandOf<Q>[],
): Promise<void> {
  const [first] = commands;
  if (first === undefined) return;
  const rows = commands as OptionalUnlessRequiredId<CommandOf<Q>>[];
  await mailboxOf(mongo, first.queue).insertMany(rows, { session, ordered: false });
}

/**
 * Inserts a command, or returns the live command with the same key. The first of concurrent writers wins, and all of them get its
 * command.
 */
export async function postCommand<Q extends Queue>(
  mongo: Mongo,
  command: CommandOf<Q>,
): Promise<{ command: CommandOf<Q>; created: boolean }> {
  const { queue, key } = command;
  // Repeat: between insert and read, the live command may be rejected, which frees its key.
  for (let pass = 0; ; pass++) {
    try {
      await mailboxOf(mongo, queue).insertOne(command as OptionalUnlessRequiredId<CommandOf<Q>>);
      return { command, created: true };
    } catch (error) {
      if (!isDuplicateKey(error, ['key']) || pass === 5) throw error;
    }
    const existing = await findLive(mongo, queue, key);
    if (existing !== null) return { command: existing, created: false };
  }
}

/** Returns the live command of this key (waiting, running, done or dead, but not rejected), or null. */
export async function findLive<Q extends Queue>(
  mongo: Mongo,
  queue: Q,
  key: string,
  session?: ClientSession,
): Promise<CommandOf<Q> | null> {
  return mailboxOf(mongo, queue).findOne<CommandOf<Q>>({ key, live: true } as Filter<CommandOf<Q>>, readIn(session));
}

/** Returns the command, or null if it does not exist. */
export async function readCommand<Q extends Queue>(
  mongo: Mongo,
  { _id, queue, key }: CommandRef<Q>,
  session?: ClientSession,
): Promise<CommandOf<Q> | null> {
  return mailboxOf(mongo, queue).findOne<CommandOf<Q>>({ _id, key } as Filter<CommandOf<Q>>, readIn(session));
}

/**
 * Makes a command that backs off due at once, because its sender has repeated the request. The command gets one more attempt, so that
 * a repeat does not use up the attempts of the schedule. A command that is leased, due or settled does not change. Returns the
 * resulting command, or null if it does not exist.
 */
export async function makeDueNow<Q extends Queue>(
  mongo: Mongo,
  { _id, queue, key }: CommandRef<Q>,
): Promise<CommandOf<Q> | null> {
  const isWaiting = {
    $and: [{ $eq: ['$status', 'PENDING'] }, { $eq: ['$lockedUntil', null] }, { $gt: [msOf('$nextRunAt'), NOW_MS] }],
  };
  const changes = {
    nextRunAt: { $cond: [isWaiting, nowPlus(0), '$nextRunAt'] },
    maxAttempts: { $cond: [isWaiting, { $add: ['$maxAttempts', 1] }, '$maxAttempts'] },
  };
  return mailboxOf(mongo, queue).findOneAndUpdate({ _id, key } as Filter<CommandOf<Q>>, [{ $set: changes }], {
    returnDocument: 'after',
    maxTimeMS: QUERY_LIMIT_MS,
  }) as Promise<CommandOf<Q> | null>;
}

/** The end of a command, for its sender. */
export type CommandEnd<Q extends Queue> =
  | { kind: 'pending' }
  | { kind: 'done'; result: Commands[Q]['result'] }
  | { kind: 'rejected'; rejection: Rejection }
  | { kind: 'dead' };

/**
 * Reads how a command has ended. A missing command counts as dead. A later read in the `session` shows what its run wrote. Throws if the
 * stored result contradicts the status.
 */
export async function readEnd<Q extends Queue>(
  mongo: Mongo,
  wanted: CommandRef<Q>,
  session: ClientSession,
): Promise<CommandEnd<Q>> {
  const command = await readCommand(mongo, wanted, session);
  if (command === null || command.status === 'DEAD') return { kind: 'dead' };
  const { _id, status, result } = command;
  if (status === 'PENDING') return { kind: 'pending' };
  if (status === 'REJECTED') {
    if (!isRejection(result)) throw new Error(`command ${_id} is rejected without a reason`);
    return { kind: 'rejected', rejection: result };
  }
  if (result === null || isRejection(result)) throw new Error(`command ${_id} is ${status} and has no result`);
  return { kind: 'done', result };
}

/** Checks whether commands that front doors wait for have settled. */
export interface SettledPoller {
  /** Resolves with true if the command has settled, and with false if not or if the id is unknown. Rejects in an outage. */
  isSettled(command: CommandRef): Promise<boolean>;
}

interface PollBatch {
  queue: Queue;
  /** Keys by id. */
  commands: Map<string, string>;
  settled: PromiseWithResolvers<ReadonlySet<string>>;
}

/** Maximum number of commands in one query. */
const MAX_COMMANDS = 500;

/**
 * Opens the shared poll of a front door. It batches the commands of all waiting requests and runs one query at a time; a request that
 * arrives during a query joins the next one. If 2,000 students wait for late grades, separate queries would be thousands a second
 * and delay every other request.
 */
export function openSettledPoller(mongo: Mongo): SettledPoller {
  const waiting: PollBatch[] = [];
  let isPolling = false;

  async function poll(): Promise<void> {
    isPolling = true;
    // Wait one turn, so that requests of the same turn join this query.
    await new Promise(setImmediate);
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      await settledOf(mongo, next).then(next.settled.resolve, next.settled.reject);
    }
    isPolling = false;
  }

  return {
    async isSettled({ _id, queue, key }) {
      let mine = waiting.find((open) => open.queue === queue && open.commands.size < MAX_COMMANDS);
      if (mine === undefined) {
        mine = { queue, commands: new Map(), settled: Promise.withResolvers() };
        waiting.push(mine);
      }
      mine.commands.set(_id, key);
      if (!isPolling) void poll();
      return (await mine.settled.promise).has(_id);
    },
  };
}

async function settledOf(mongo: Mongo, { queue, commands }: PollBatch): Promise<ReadonlySet<string>> {
  const found = await mailboxOf(mongo, queue)
    .find(
      { _id: { $in: [...commands.keys()] }, key: { $in: [...commands.values()] } },
      { projection: { status: 1 }, maxTimeMS: QUERY_LIMIT_MS },
    )
    .toArray();
  return new Set(found.filter(({ status }) => status !== 'PENDING').map(({ _id }) => _id));
}
