import type { ClientSession } from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';

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
