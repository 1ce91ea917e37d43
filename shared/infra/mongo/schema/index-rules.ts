import type { CreateIndexesOptions } from 'mongodb';
import { SECOND } from '#shared/kernel/time.ts';
import type { CollectionName } from './personal-fields.ts';

type Keys = Readonly<Record<string, 1 | -1>>;
/** The rows of a partial index: those whose fields equal these values. */
type Equals = Readonly<Record<string, string | number | boolean>>;

export interface DeclaredIndex {
  /** A declared collection: `personal-fields.ts` states which person its rows hold. */
  collection: CollectionName;
  name: string;
  keys: Keys;
  options?: Pick<CreateIndexesOptions, 'unique' | 'partialFilterExpression' | 'expireAfterSeconds'>;
}

/** Returns an index that deletes rows some time after `afterMs` milliseconds from the date in `field`. No reply may depend on the deletion. */
export function expiring(
  collection: CollectionName,
  name: string,
  field: string,
  afterMs: number,
  where?: Equals,
): DeclaredIndex {
  const filter = where === undefined ? {} : filteredBy(where);
  return { collection, name, keys: { [field]: 1 }, options: { expireAfterSeconds: afterMs / SECOND, ...filter } };
}

/** Returns an index for queries. `where`: of these rows alone. */
export function plain(collection: CollectionName, name: string, keys: Keys, where?: Equals): DeclaredIndex {
  return { collection, name, keys, ...(where === undefined ? {} : { options: filteredBy(where) }) };
}

/** Returns an index that holds a promise of the product. */
export function unique(collection: CollectionName, name: string, keys: Keys, where?: Equals): DeclaredIndex {
  return { collection, name, keys, options: { unique: true, ...(where === undefined ? {} : filteredBy(where)) } };
}

function filteredBy(where: Equals): { partialFilterExpression: Equals } {
  return { partialFilterExpression: where };
}
