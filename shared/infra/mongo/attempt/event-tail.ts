import { LRUCache } from 'lru-cache';
import type { ClientSession, Document } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isOnlyDuplicateKeys } from '#infra/mongo/faults.ts';
import { literal } from '#infra/mongo/guarded-update.ts';
import { applyWrites, type Writes } from '#infra/mongo/writes.ts';
import type { Attempt, AttemptEvent } from '#shared/attempt/attempt.ts';
import { EVENT_TAIL_CAP, EVENT_TAIL_KEEP, EVENT_TAIL_LIMIT } from '#shared/attempt/limits.ts';
import { EVENT_ROWS, type EventRow, eventRows } from './collections.ts';

/**
 * Moves the older events of a long tail to rows, in two steps and without a transaction. First the events are copied to rows, whose
 * ids follow from attempt and seq, so that a second copy changes nothing. The next write to the attempt then drops them from the tail.
 *
 * A process that dies between the steps leaves events in both places. Readers show each seq once, and the next process that sees the
 * long tail copies the same rows again.
 */
export interface EventTails {
  /** Returns the seq up to which every event of the attempt is known to have a row; 0 if this process knows of none. */
  movedTo(attemptId: string): number;
  /**
   * Receives an attempt as a write has returned it. If its tail is long, copies the older events in the background, because the
   * caller's write has succeeded. A copy that fails is repeated after the next write.
   */
  seen(attempt: TailOwner): void;
  /** Copies the older events of a tail that has no room left. Throws if MongoDB does not store them. */
  makeRoom(attempt: TailOwner): Promise<void>;
  /** Resolves once no copy is in progress. */
  idle(): Promise<void>;
}

type TailOwner = Pick<Attempt, '_id' | 'events'>;

/** Attempts whose copied seq a process remembers. It needs one only between the copy and the next write to the attempt. */
const REMEMBERED = 10_000;

/** Opens the memory of this process about tails; it is empty at first. */
export function openEventTails(mongo: Mongo): EventTails {
  const moved = new LRUCache<string, number>({ max: REMEMBERED });
  const copying = new Map<string, Promise<void>>();

  async function copy({ _id, events }: TailOwner): Promise<void> {
    const old = oldEvents(events);
    const last = old.at(-1);
    if (last === undefined) return;
    await copyRows(mongo, rowsOf(_id, old));
    moved.set(_id, Math.max(last.seq, moved.get(_id) ?? 0));
  }

  function copyOnce(attempt: TailOwner): Promise<void> {
    const already = copying.get(attempt._id);
    if (already !== undefined) return already;
    const copied = copy(attempt).finally(() => copying.delete(attempt._id));
    copying.set(attempt._id, copied);
    return copied;
  }

  return {
    movedTo: (attemptId) => moved.get(attemptId) ?? 0,
    seen(attempt) {
      const first = attempt.events[0];
      // The next write drops what is copied already.
      if (first === undefined || first.seq <= (moved.get(attempt._id) ?? 0)) return;
      moved.delete(attempt._id);
      if (attempt.events.length >= EVENT_TAIL_CAP) copyOnce(attempt).catch(() => undefined);
    },
    makeRoom: copyOnce,
    async idle() {
      await Promise.allSettled(copying.values());
    },
  };
}

/** Returns the events that leave a tail of `cap` events or more for rows: all but the newest EVENT_TAIL_KEEP. */
export function oldEvents(tail: readonly AttemptEvent[], cap = EVENT_TAIL_CAP): AttemptEvent[] {
  return tail.length < cap ? [] : tail.slice(0, tail.length - EVENT_TAIL_KEEP);
}

/** Returns the rows of events that leave a tail. The row of a stub exists already. */
export function rowsOf(attemptId: string, events: readonly AttemptEvent[]): EventRow[] {
  return events.filter((event) => event.inRow !== true).map((event) => eventRow(attemptId, event));
}

/** Returns the row of an event. */
export function eventRow(attemptId: string, { seq, type, metadata, createdAt }: AttemptEvent): EventRow {
  return { _id: eventRowId(attemptId, seq), attemptId, seq, type, metadata, createdAt };
}

/** Returns the id of the row of an event. */
export function eventRowId(attemptId: string, seq: number): string {
  return `${attemptId}:${seq}`;
}

/** Inserts the rows that do not exist yet. Throws for every fault but a row that exists. */
async function copyRows(mongo: Mongo, rows: EventRow[]): Promise<void> {
  if (rows.length === 0) return;
  try {
    await eventRows(mongo).insertMany(rows, { ordered: false, maxTimeMS: QUERY_LIMIT_MS });
  } catch (error) {
    if (!isOnlyDuplicateKeys(error)) throw error;
  }
}

/**
 * Returns the writes of rows, which leave rows alone that exist. A plain insert of such a row would abort its transaction, and a roll of
 * the tail may have copied it at any time.
 */
export function rowWrites(rows: readonly EventRow[]): Writes {
  // The filter names the shard key, which an upsert on a sharded cluster requires.
  const models = rows.map(({ _id, attemptId, ...row }) => ({
    updateOne: { filter: { _id, attemptId } as object, update: { $setOnInsert: row }, upsert: true },
  }));
  return { collection: EVENT_ROWS, models, matched: 0 };
}

/** Stores rows in the caller's transaction, as `rowWrites` does. */
export async function putRows(mongo: Mongo, rows: readonly EventRow[], session: ClientSession): Promise<void> {
  await applyWrites(mongo, [rowWrites(rows)], session);
}

/** Returns the expression for the tail without the events up to `movedTo`, which have rows. */
export function tailAfter(movedTo: number): Document | string {
  return movedTo === 0 ? '$events' : { $filter: { input: '$events', cond: { $gt: ['$$this.seq', literal(movedTo)] } } };
}

/** Returns the condition under which a tail takes one more event in a single command. */
export function hasTailRoom(tail: Document | string): Document {
  return { $lt: [{ $size: tail }, EVENT_TAIL_LIMIT] };
}
