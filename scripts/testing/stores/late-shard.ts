import type { ClientSession, Document } from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';
import { MAILBOXES } from '#infra/mongo/mailbox/commands.ts';
import { type Method, tappedDb } from './tapped-db.ts';

/**
 * A transaction that has arrived on the shard of its command, and not yet on the shards of its other rows. By collection: what a plain read
 * returns instead of a row until the commit arrives; null for a row that the transaction inserts.
 */
export type Late = Readonly<Record<string, (row: Document) => Document | null>>;

/**
 * Returns the same MongoDB as a sharded cluster shows it while the transactions of commands are being committed. A plain read of a
 * collection in `late` returns the rows as they were before. A read waits for the commit if it is part of a transaction, or if its session
 * has seen a command or run a transaction. From then on, all readers see the rows of that collection.
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
      const find = method as unknown as (...args: unknown[]) => { toArray(): Promise<Document[]> };
      return ((...args: unknown[]) => {
        const cursor = find(...args);
        const all = cursor.toArray.bind(cursor);
        const toArray = async () =>
          shown(collection, sessionIn(args), await all()).filter((row): row is Document => row !== null);
        return Object.assign(cursor, { toArray });
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
      if (isMailbox && row !== null && session !== undefined) hasSeen.add(session);
      return name === 'findOne' ? (shown(collection, session, [row])[0] ?? null) : row;
    };
  });
  return { mongo: { ...mongo, db }, arrived };
}
