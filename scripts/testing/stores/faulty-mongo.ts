import { type ClientSession, type Document, MongoNetworkError } from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';
import { MAILBOXES } from '#infra/mongo/mailbox/commands.ts';

export type Method = (...args: unknown[]) => Promise<unknown>;

/** Returns the replacement of a collection's method, which is passed bound, or undefined to keep the method. */
type Tap = (method: Method, name: string, collection: string) => Method | undefined;

/** Returns the same database with the methods of its collections replaced by `tap`. */
export function tappedDb(mongo: Mongo, tap: Tap): Mongo['db'] {
  return new Proxy(mongo.db, {
    get(target, name) {
      if (name !== 'collection') return Reflect.get(target, name, target);
      return (collectionName: string) =>
        new Proxy(target.collection(collectionName), {
          get(collection, property) {
            const value: unknown = Reflect.get(collection, property, collection);
            if (typeof value !== 'function') return value;
            const method = value.bind(collection);
            return tap(method, String(property), collectionName) ?? method;
          },
        });
    },
  });
}

/** Returns the same client with the commit of each transaction replaced by what `tap` makes of it. */
export function tappedCommits({ client }: Mongo, tap: (commit: Method) => Method): Mongo['client'] {
  return new Proxy(client, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (name !== 'withSession') return typeof value === 'function' ? value.bind(target) : value;
      return (work: (session: ClientSession) => Promise<unknown>) =>
        target.withSession((session) => {
          const commit = session.commitTransaction.bind(session) as Method;
          session.commitTransaction = tap(commit) as ClientSession['commitTransaction'];
          return work(session);
        });
    },
  });
}

/** The calls of one collection method that fail. */
export interface FaultPlan {
  method: string;
  /** `lost`: the server executed the command and the reply is lost. `refused`: the command never reached the server. */
  how: 'lost' | 'refused';
  times: number;
  /** Selects the calls that fail; default all. */
  when?: (args: readonly unknown[]) => boolean;
  /** Runs before the caller receives the fault. */
  meanwhile?: () => Promise<void>;
}

/** Selects calls of updateOne with a pipeline: in a mailbox, those that settle a command or renew its lease. */
export const settles = ([, update]: readonly unknown[]): boolean => Array.isArray(update);

/** Returns the same MongoDB behind a connection that fails as planned, with the error of a driver whose own retries are exhausted. */
export function faultyMongo(mongo: Mongo, plan: FaultPlan): { mongo: Mongo; left: () => number } {
  let left = plan.times;
  const breakDown = (method: Method): Method =>
    async function faulty(...args: unknown[]): Promise<unknown> {
      if (left === 0 || plan.when?.(args) === false) return method(...args);
      left -= 1;
      if (plan.how === 'lost') await method(...args);
      await plan.meanwhile?.();
      throw new MongoNetworkError('the connection broke');
    };
  const db = tappedDb(mongo, (method, name) => (name === plan.method ? breakDown(method) : undefined));
  return { mongo: { ...mongo, db }, left: () => left };
}

/** Returns the same MongoDB. After `loseNext`, the next commit takes effect and its reply is lost. */
export function losingCommit(mongo: Mongo): { mongo: Mongo; loseNext: () => void } {
  let loses = false;
  const losing = (commit: Method) => async () => {
    await commit();
    if (!loses) return;
    loses = false;
    throw new MongoNetworkError('the connection broke');
  };
  return {
    mongo: { ...mongo, client: tappedCommits(mongo, losing) },
    loseNext() {
      loses = true;
    },
  };
}

type Find = (filter: object, options: { session?: unknown }) => AsyncIterable<unknown>;

/**
 * Returns a MongoDB that runs `meanwhile` once: after the first search of the collection outside a transaction whose filter is `wanted`,
 * and before the next statement. `times` counts its runs.
 */
export function afterSearch(
  mongo: Mongo,
  collection: string,
  wanted: (filter: object) => boolean,
  meanwhile: () => Promise<unknown>,
): { mongo: Mongo; times: () => number } {
  let times = 0;
  const db = tappedDb(mongo, (method, name, searched) => {
    if (name !== 'find' || searched !== collection) return undefined;
    const find = method as unknown as Find;
    const tapped: Find = (filter, options) => {
      const cursor = find(filter, options);
      if (!wanted(filter) || options.session !== undefined || times > 0) return cursor;
      times += 1;
      return (async function* () {
        yield* cursor;
        await meanwhile();
      })();
    };
    return tapped as unknown as Method;
  });
  return { mongo: { ...mongo, db }, times: () => times };
}

/**
 * A transaction that has arrived on the shard of its command, and not yet on the shards of its other rows. By collection: what a plain read
 * returns instead of a row until the commit arrives; null for a row that the transaction inserts.
 */
export type Late = Readonly<Record<string, (row: Document) => Document | null>>;

/**
 * Returns the same MongoDB as a sharded cluster shows it while the transactions of commands are being committed. A plain read of a
 * collection in `late` returns the rows as they were before. A read waits for the commit if it is part of a transaction, or if its session
 * has seen a row that is not late or run a transaction. From then on, all readers see the rows of that collection.
 */
export function lateShard(mongo: Mongo, late: Late): { mongo: Mongo; arrived: ReadonlySet<string> } {
  const arrived = new Set<string>();
  const hasSeen = new WeakSet<ClientSession>();
  const sessionIn = (args: readonly unknown[]) =>
    args.map((arg) => (arg as { session?: ClientSession } | undefined)?.session).find((one) => one !== undefined);

  /** Returns the rows as this read shows them. */
  function shown(collection: string, session: ClientSession | undefined, rows: (Document | null)[]) {
    const before = late[collection];
    if (before === undefined) return rows;
    if (session !== undefined && (session.inTransaction() || hasSeen.has(session))) arrived.add(collection);
    if (arrived.has(collection)) return rows;
    return rows.map((row) => (row === null ? null : before(row)));
  }

  const db = tappedDb(mongo, (method, name, collection) => {
    const isMailbox = (MAILBOXES as readonly string[]).includes(collection);
    if (name === 'find') {
      const find = method as unknown as (...args: unknown[]) => AsyncIterable<Document>;
      return ((...args: unknown[]) => {
        const cursor = find(...args);
        const stored = { [Symbol.asyncIterator]: cursor[Symbol.asyncIterator].bind(cursor) };
        const toArray = async () => {
          const all: Document[] = [];
          for await (const row of stored) all.push(row);
          return shown(collection, sessionIn(args), all).filter((row) => row !== null);
        };
        async function* each() {
          yield* await toArray();
        }
        return Object.assign(cursor, { toArray, [Symbol.asyncIterator]: each });
      }) as unknown as Method;
    }
    if (name === 'updateOne') {
      return (...args) => {
        const session = sessionIn(args);
        if (session?.inTransaction() === true) hasSeen.add(session);
        return method(...args);
      };
    }
    if (name !== 'findOne' && !(isMailbox && name === 'findOneAndUpdate')) return undefined;
    return async (...args) => {
      const session = sessionIn(args);
      const row = (await method(...args)) as Document | null;
      const result = name === 'findOne' ? (shown(collection, session, [row])[0] ?? null) : row;
      const before = late[collection];
      const isLate = before !== undefined && (row === null || before(row) !== row);
      if (result !== null && !isLate && session !== undefined) hasSeen.add(session);
      return result;
    };
  });
  return { mongo: { ...mongo, db }, arrived };
}
