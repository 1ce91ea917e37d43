import type { Mongo } from '#infra/mongo/connect.ts';
import { type Method, tappedDb } from './tapped-db.ts';

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
