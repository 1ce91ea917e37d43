import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import type { MAILBOXES } from '#infra/mongo/mailbox/commands.ts';
import type { Command } from '#shared/kernel/command.ts';

/** A promise of the product that stored rows can show, and the reading that finds the rows which break it. Nothing is written. */
export interface Invariant {
  /** The promise, as a statement. */
  name: string;
  /** The next step of an operator who meets a broken one. */
  remedy: string;
  /** Reads a bounded number of rows by an index. `now` is in Unix milliseconds, by MongoDB's clock. */
  find(mongo: Mongo, now: number): Promise<Finding>;
}

/** Result of one reading. */
export interface Finding {
  /** Number of rows that were read. */
  checked: number;
  /** Ids of those that break the promise. */
  broken: string[];
  /** True if there are more rows than were read. */
  isCut: boolean;
}

/** Rows that one reading takes: the newest ones, or those that wait. */
export const SAMPLE = 2_000;
/** Ids in one query. */
const AT_ONCE = 500;
export const BOUND = { maxTimeMS: QUERY_LIMIT_MS };

/** Returns the finding of rows of which SAMPLE + 1 were requested. */
export function findingOf<Row extends { _id: string }>(
  rows: readonly Row[],
  isBroken: (row: Row) => boolean,
  sample = SAMPLE,
): Finding {
  const read = rows.slice(0, sample);
  return { checked: read.length, broken: read.filter(isBroken).map(({ _id }) => _id), isCut: rows.length > sample };
}

/** Calls `read` with a few of the values at a time, and returns all that it returned. */
export async function inParts<Value, Row>(
  values: readonly Value[],
  read: (part: Value[]) => Promise<Row[]>,
): Promise<Row[]> {
  const rows: Row[] = [];
  for (let at = 0; at < values.length; at += AT_ONCE) rows.push(...(await read(values.slice(at, at + AT_ONCE))));
  return rows;
}

export type FoundCommand = Pick<Command, '_id' | 'key' | 'status' | 'createdAt'>;

/** Returns the live commands with these keys, by key. */
export async function liveByKey(
  mongo: Mongo,
  mailbox: (typeof MAILBOXES)[number],
  keys: readonly string[],
): Promise<Map<string, FoundCommand>> {
  const found = await inParts(keys, (part) =>
    mongo.db
      .collection<Command>(mailbox)
      .find<FoundCommand>(
        { key: { $in: part }, live: true },
        { ...BOUND, projection: { key: 1, status: 1, createdAt: 1 } },
      )
      .toArray(),
  );
  return new Map(found.map((command) => [command.key, command]));
}
