import type { Document } from 'mongodb';
import type { Placement } from '#infra/mongo/schema/shard-keys.ts';

type Sharded = Extract<Placement, { shardKey: readonly string[] }>;

/** One statement of a command that a sharded cluster would refuse, or send to more than one shard at a time or in turn. */
export interface Fault {
  collection: string;
  command: string;
  /** Fields and operators of the filter without values, so that equal statements have equal text. */
  shape: string;
  /** A statement that goes to every shard may have an exception (`shard-exceptions.ts`). */
  fault:
    | 'goes to every shard'
    | 'is a write that MongoDB 7 refuses'
    | 'is part of an ordered batch over several shards';
}

/**
 * Returns the faults of a command, and none for commands without a filter, such as those of a transaction. A statement has to name the
 * shard key by equality or by a list of values. MongoDB 7 refuses a write of one document that does not name one shard, and an update of
 * several that sets the shard key. A router waits for each statement of an ordered batch before it sends the next to another shard.
 */
export function faultsOf(
  command: string,
  sent: Document,
  placements: Readonly<Record<string, Placement | undefined>>,
): Fault[] {
  const collection = sent[command];
  const placement = typeof collection === 'string' ? placements[collection] : undefined;
  if (placement === undefined || !('shardKey' in placement)) return [];
  const filters = FILTERS[command]?.(sent) ?? [];
  const isInTurn = isSentInTurn(sent, filters, placement);
  return filters.flatMap((filter, at) => {
    const keys = keysOf(filter, placement);
    const isRefused = writesOne(command, sent, at)
      ? keys?.length !== 1
      : setsShardKey(sent.updates?.[at]?.u, placement);
    const statement = { collection, command, shape: shapeOf(filter) };
    if (isRefused) return { ...statement, fault: 'is a write that MongoDB 7 refuses' as const };
    if (isInTurn) return { ...statement, fault: 'is part of an ordered batch over several shards' as const };
    return keys === null ? { ...statement, fault: 'goes to every shard' as const } : [];
  });
}

/** Returns whether a router sends the statements of this batch one after the other: they are ordered and have different shard keys. */
function isSentInTurn({ ordered }: Document, filters: readonly Document[], placement: Sharded): boolean {
  if (ordered !== true || filters.length < 2) return false;
  return new Set(filters.map((filter) => keysOf(filter, placement)?.join())).size > 1;
}

/** Returns whether a statement changes one of the documents that match. */
function writesOne(command: string, sent: Document, at: number): boolean {
  if (command === 'update') return sent.updates[at].multi !== true;
  if (command === 'delete') return sent.deletes[at].limit === 1;
  return command === 'findAndModify';
}

/** Returns whether an update, which may be a pipeline, writes a field of the shard key. */
function setsShardKey(update: Document | readonly Document[] | undefined, { shardKey }: Sharded): boolean {
  if (update === undefined) return false;
  const stages: readonly Document[] = Array.isArray(update) ? update : [update];
  const written = stages.flatMap((stage) => Object.values(stage)).flatMap(fieldsIn);
  return shardKey.some((key) => written.includes(key));
}

function fieldsIn(operand: unknown): string[] {
  if (typeof operand === 'string') return [operand];
  return Array.isArray(operand) ? operand : Object.keys(operand ?? {});
}

const ofQuery = ({ query }: Document): Document[] => [query ?? {}];

/** Returns the filter of each statement, by command. A row that is inserted is its own filter. */
const FILTERS: Readonly<Record<string, (sent: Document) => Document[]>> = {
  find: ({ filter }) => [filter ?? {}],
  findAndModify: ofQuery,
  count: ofQuery,
  distinct: ofQuery,
  aggregate: ({ pipeline }) => [pipeline?.[0]?.$match ?? {}],
  update: ({ updates }) => updates.map(({ q }: Document) => q),
  delete: ({ deletes }) => deletes.map(({ q }: Document) => q),
  insert: ({ documents }) => documents,
};

/** Returns the shard keys that the filter lists, as text; null if it does not list them. */
function keysOf(filter: Document, { shardKey }: Sharded): string[] | null {
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
