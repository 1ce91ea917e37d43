import type { Document } from 'mongodb';
import type { Placement } from '#infra/mongo/schema/shard-keys.ts';

/**
 * Shards that a command of a sharded cluster reaches. `one`: the shard key has one value, or the collection is on one shard. `few`: the
 * shard key has several listed values. `every`: the filter does not name the shard key.
 */
export type Reach = 'one' | 'few' | 'every';

/** One statement of a command, and the shards that it reaches. */
export interface Route {
  collection: string;
  command: string;
  reach: Reach;
  /** Fields and operators of the filter without values, so that equal statements have equal text. */
  shape: string;
}

/** Returns the route of each statement of a command, and none for commands without a filter, such as those of a transaction. */
export function routesOf(
  command: string,
  sent: Document,
  placements: Readonly<Record<string, Placement | undefined>>,
): Route[] {
  const collection = sent[command];
  if (typeof collection !== 'string') return [];
  const placement = placements[collection];
  if (placement === undefined) return [];
  return filtersOf(command, sent).map((filter) => {
    return { collection, command, reach: reachOf(filter, placement), shape: shapeOf(filter) };
  });
}

/** Returns the filter of each statement. A row that is inserted is its own filter. */
function filtersOf(command: string, sent: Document): Document[] {
  switch (command) {
    case 'find':
      return [sent.filter ?? {}];
    case 'findAndModify':
    case 'count':
    case 'distinct':
      return [sent.query ?? {}];
    case 'aggregate':
      return [sent.pipeline?.[0]?.$match ?? {}];
    case 'update':
      return sent.updates.map(({ q }: Document) => q);
    case 'delete':
      return sent.deletes.map(({ q }: Document) => q);
    case 'insert':
      return sent.documents;
    default:
      return [];
  }
}

function reachOf(filter: Document, placement: Placement): Reach {
  if (!('shardKey' in placement)) return 'one';
  const counts = placement.shardKey.map((field) => valuesOf(filter, field));
  if (counts.some((count) => count === null)) return 'every';
  return counts.every((count) => count === 1) ? 'one' : 'few';
}

/** Returns the number of values that the filter lists for a field; null if it does not list them. */
function valuesOf(filter: Document, field: string): number | null {
  // The client leaves undefined fields out of what it sends.
  if (filter[field] !== undefined) return listed(filter[field]);
  for (const part of filter.$and ?? []) {
    const count = valuesOf(part, field);
    if (count !== null) return count;
  }
  return null;
}

function listed(condition: unknown): number | null {
  if (!isOperators(condition)) return condition instanceof RegExp ? null : 1;
  if ('$eq' in condition) return 1;
  return Array.isArray(condition.$in) ? condition.$in.length : null;
}

/** Returns true for `{ $gt: … }`, and false for a value, which may be a document or a date as well. */
function isOperators(condition: unknown): condition is Document {
  if (typeof condition !== 'object' || condition === null || Array.isArray(condition)) return false;
  return Object.keys(condition)[0]?.startsWith('$') === true;
}

function shapeOf(filter: Document): string {
  const sent = Object.entries(filter).filter(([, condition]) => condition !== undefined);
  const parts = sent.map(([field, condition]) => {
    if (Array.isArray(condition) && field.startsWith('$')) return `${field}(${condition.map(shapeOf).join('|')})`;
    return isOperators(condition) ? `${field} ${Object.keys(condition).join(' ')}` : field;
  });
  return parts.sort().join(', ');
}
