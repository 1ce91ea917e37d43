import { readFileSync } from 'node:fs';
import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { type DeclaredIndex, INDEXES } from '#infra/mongo/schema/indexes.ts';

/**
 * The record of every index that any revision has declared. A database may have each of them, because a migration drops none. The record
 * only grows: `npm run generate` adds the new indexes.
 */
export const RELEASED_INDEXES = 'scripts/rolling/released-indexes.json';

const ROOT = path.resolve(import.meta.dirname, '../..');

/** Reads the record. */
export function readReleased(): DeclaredIndex[] {
  return JSON.parse(readFileSync(path.join(ROOT, RELEASED_INDEXES), 'utf8')) as DeclaredIndex[];
}

/** Returns the record with the indexes that this revision declares, as the content of its file: one line for each index. */
export function releasedIndexes(): string {
  const released = readReleased();
  const added = INDEXES.filter((index) => !released.some((known) => isSame(known, index)));
  return `[\n${[...released, ...added].map((index) => JSON.stringify(index)).join(',\n')}\n]\n`;
}

/**
 * Returns why a migration would fail on a database of an earlier revision, one line for each conflict. MongoDB refuses an index whose name
 * belongs to another index. It also refuses the keys, the filter and the uniqueness of another index under a new name.
 */
export function conflicts(declared: readonly DeclaredIndex[], released: readonly DeclaredIndex[]): string[] {
  return declared.flatMap((index) =>
    released
      .filter(({ collection }) => collection === index.collection)
      .filter((known) => !isSame(known, index) && (known.name === index.name || hasSameRows(known, index)))
      .map((known) => {
        const reason = known.name === index.name ? 'its name' : 'its keys and rows';
        return `${index.collection}.${index.name}: ${reason} belong to the earlier index ${JSON.stringify(known)}`;
      }),
  );
}

function isSame(one: DeclaredIndex, other: DeclaredIndex): boolean {
  const specOf = ({ collection, name, keys, options = {} }: DeclaredIndex) => [
    collection,
    name,
    Object.entries(keys),
    options,
  ];
  return isDeepStrictEqual(specOf(one), specOf(other));
}

function hasSameRows(one: DeclaredIndex, other: DeclaredIndex): boolean {
  const rowsOf = ({ keys, options }: DeclaredIndex) => [
    Object.entries(keys),
    options?.partialFilterExpression ?? null,
    options?.unique ?? false,
  ];
  return isDeepStrictEqual(rowsOf(one), rowsOf(other));
}
