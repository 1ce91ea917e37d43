import type { Document } from 'mongodb';
import type { Placement } from '#infra/mongo/schema/shard-keys.ts';

/**
 * Shards that a command of a sharded cluster reaches. `one`: the shard key has one value, or the collection is on one shard. `few`: the
 * shard key has several listed values. `every`: the filter does not name the shard key.
 *
 * Two more are faults. `refused`: MongoDB 7 refuses a write of one document that does not name one shard, and an update of several that sets the
 * shard key. `in turn`: the statement is part of an ordered batch over several shards, in which a router waits for each statement before it
 * sends the next.
 */
export type Reach = 'one' | 'few' | 'every' | 'refused' | 'in turn';

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
  const filters = filtersOf(command, sent);
  const inTurn = isSentInTurn(sent, filters, placement);
  return filters.map((filter, at) => {
    const shards = reachOf(filter, placement);
    const isRefused = writesOne(command, sent, at) ? shards !== 'one' : setsShardKey(sent.updates?.[at]?.u, placement);
    const reach = isRefused ? 'refused' : inTurn ? 'in turn' : shards;
    return { collection, command, reach, shape: shapeOf(filter) };
  });
}

/** Returns whether a router sends the statements of this batch one after the other: they are ordered and have different shard keys. */
function isSentInTurn({ ordered }: Document, filters: readonly Document[], placement: Placement): boolean {
  if (ordered !== true || filters.length < 2 || !('shardKey' in placement)) return false;
  return new Set(filters.map((filter) => keysOf(filter, placement)?.join())).size > 1;
}

/** Returns whether a statement changes one of the documents that match. */
function writesOne(command: string, sent: Document, at: number): boolean {
  if (command === 'update') return sent.updates[at].multi !== true;
  if (command === 'delete') return sent.deletes[at].limit === 1;
  return command === 'findAndModify';
}

/** Returns whether an update, which may be a pipeline, writes a field of the shard key. */
function setsShardKey(update: Document | readonly Document[] | undefined, placement: Placement): boolean {
  if (update === undefined || !('shardKey' in placement)) return false;
  const stages: readonly Document[] = Array.isArray(update) ? update : [update];
  const written = stages.flatMap((stage) => Object.values(stage)).flatMap(fieldsIn);
  return placement.shardKey.some((key) => written.includes(key));
}

/** Returns the fields that an operator or a stage names. */
function fieldsIn(operand: unknown): string[] {
  if (typeof operand === 'string') return [operand];
  return Array.isArray(operand) ? operand : Object.keys(operand ?? {});
}

/** Returns the filter of each statement. A row that is inserted is its own filter. */
export function filtersOf(command: string, sent: Document): Document[] {
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
  const keys = keysOf(filter, placement);
  if (keys === null) return 'every';
  return keys.length === 1 ? 'one' : 'few';
}

/** Returns the shard keys that the filter lists, as text; null if it does not list them. */
export function keysOf(filter: Document, { shardKey }: { readonly shardKey: readonly string[] }): string[] | null {
  let keys = [''];
  for (const field of shardKey) {
    const values = valuesOf(filter, field);
    if (values === null) return null;
    keys = keys.flatMap((key) => values.map((value) => `${key}${JSON.stringify(value)}`));
  }
  return keys;
}

/** Returns the values that the filter lists for a field; null if it does not list them. */
function valuesOf(filter: Document, field: string): unknown[] | null {
  // The client leaves undefined fields out of what it sends.
  if (filter[field] !== undefined) return listed(filter[field]);
  for (const part of filter.$and ?? []) {
    const values = valuesOf(part, field);
    if (values !== null) return values;
  }
  return null;
}

function listed(condition: unknown): unknown[] | null {
  if (!isOperators(condition)) return condition instanceof RegExp ? null : [condition];
  if ('$eq' in condition) return [condition.$eq];
  return Array.isArray(condition.$in) ? condition.$in : null;
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
