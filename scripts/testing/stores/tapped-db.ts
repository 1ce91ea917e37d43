import type { Mongo } from '#infra/mongo/connect.ts';

export type Method = (...args: unknown[]) => Promise<unknown>;

/** What stands in for a method of a collection, which comes bound; undefined = the method itself. */
export type Tap = (method: Method, name: string, collection: string) => Method | undefined;

/** The same database, where calls of collections' methods go through `tap`. */
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
