import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { guardedUpdate, literal, msOf, NOW_MS, wasAccepted } from '#infra/mongo/guarded-update.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import type { Attempt, AttemptEvent, ClientEventType } from '#shared/attempt/attempt.ts';
import { EVENT_TAIL_CAP, EVENT_TAIL_KEEP, MAX_CLIENT_EVENTS, METADATA_ROW_BYTES } from '#shared/attempt/limits.ts';
import { attempts, type EventRow, eventRows } from './collections.ts';

/**
 * The log of an attempt: the newest events are a tail inside its document, older ones and those with long metadata are rows of
 * their own. `seq` numbers them without a gap.
 */

interface EventWrite {
  attemptId: string;
  type: ClientEventType;
  /** JSON text. */
  metadata: string;
}

type Appended = { kind: 'appended'; event: AttemptEvent } | { kind: 'full' };

/**
 * Appends what a client saw to the log, in any state of the attempt: one command, or a transaction when the tail is
 * full or the metadata long. `full`: the attempt has logged as many client events as it may.
 */
export async function appendClientEvent(
  mongo: Mongo,
  write: EventWrite,
  budgetMs: number,
  now: () => number,
): Promise<Appended> {
  if (needsRow(write.metadata)) return appendWithRows(mongo, write, budgetMs, now);
  const quick = await appendToTail(mongo, write);
  return quick.kind === 'appended' ? quick : appendWithRows(mongo, write, budgetMs, now);
}

const HAS_ROOM = { $lt: ['$clientEvents', MAX_CLIENT_EVENTS] };

/** `full`: the log, or the tail alone. */
async function appendToTail(mongo: Mongo, write: EventWrite): Promise<Appended> {
  const event = {
    seq: { $add: ['$eventSeq', 1] },
    type: write.type,
    metadata: literal(write.metadata),
    createdAt: EVENT_TIME,
  };
  const update = guardedUpdate([HAS_ROOM, { $lt: [{ $size: '$events' }, EVENT_TAIL_CAP] }], {
    events: { $concatArrays: ['$events', [event]] },
    eventSeq: { $add: ['$eventSeq', 1] },
    clientEvents: { $add: ['$clientEvents', 1] },
  });
  const attempt = await attempts(mongo).findOneAndUpdate({ _id: write.attemptId }, update.pipeline, {
    returnDocument: 'after',
    projection: { stamp: 1, events: { $slice: -1 } },
    maxTimeMS: QUERY_LIMIT_MS,
  });
  // The last: where the driver had to ask again, MongoDB gives the whole document, whatever projection was wanted.
  const appended = wasAccepted(update, attempt) ? attempt?.events.at(-1) : undefined;
  return appended === undefined ? { kind: 'full' } : { kind: 'appended', event: appended };
}

async function appendWithRows(mongo: Mongo, write: EventWrite, budgetMs: number, now: () => number): Promise<Appended> {
  return inTransaction<Appended>(mongo, budgetMs, async (session) => {
    const before = (await attempts(mongo).findOne({ _id: write.attemptId }, { session })) as Attempt | null;
    if (before === null) throw new Error(`attempt ${write.attemptId} is missing`);
    const event = { type: write.type, metadata: write.metadata, createdAt: new Date(now()) };
    const placed = placeEvent(before, event);
    const update = guardedUpdate([HAS_ROOM], {
      events: literal(placed.tail),
      eventSeq: literal(placed.eventSeq),
      clientEvents: { $add: ['$clientEvents', 1] },
    });
    const after = await attempts(mongo).findOneAndUpdate({ _id: write.attemptId }, update.pipeline, {
      returnDocument: 'after',
      projection: { stamp: 1 },
      session,
    });
    if (!wasAccepted(update, after)) return { kind: 'full' };
    if (placed.rows.length > 0) await eventRows(mongo).insertMany(placed.rows, { session });
    const createdAt = placed.tail.at(-1)?.createdAt ?? event.createdAt;
    return { kind: 'appended', event: { seq: placed.eventSeq, type: event.type, metadata: event.metadata, createdAt } };
  });
}

/** Where a new event goes: the attempt document's next tail, and the rows that its transaction inserts. */
interface PlacedEvent {
  tail: AttemptEvent[];
  eventSeq: number;
  rows: EventRow[];
}

/** Appends one event; a full tail hands its older half to rows, so the log is never lost nor reordered. */
export function placeEvent(
  attempt: Pick<Attempt, '_id' | 'events' | 'eventSeq'>,
  event: Omit<AttemptEvent, 'seq'>,
): PlacedEvent {
  const last = attempt.events.at(-1);
  const createdAt = last !== undefined && last.createdAt > event.createdAt ? last.createdAt : event.createdAt;
  const numbered: AttemptEvent = { seq: attempt.eventSeq + 1, ...event, createdAt };
  const rows: EventRow[] = [];
  let tail = [...attempt.events];
  if (tail.length >= EVENT_TAIL_CAP) {
    const moved = tail.slice(0, tail.length - EVENT_TAIL_KEEP);
    // A stub's row is there already.
    rows.push(...moved.filter((old) => old.inRow !== true).map((old) => eventRow(attempt._id, old)));
    tail = tail.slice(moved.length);
  }
  if (needsRow(event.metadata)) {
    rows.push(eventRow(attempt._id, numbered));
    tail.push({ ...numbered, metadata: '{}', inRow: true });
  } else {
    tail.push(numbered);
  }
  return { tail, eventSeq: numbered.seq, rows };
}

/** Metadata this long would make every later save of the attempt dearer: it lies in a row, the tail keeps a stub. */
function needsRow(metadata: string): boolean {
  return Buffer.byteLength(metadata) > METADATA_ROW_BYTES;
}

function eventRow(attemptId: string, { seq, type, metadata, createdAt }: AttemptEvent): EventRow {
  return { _id: `${attemptId}:${seq}`, attemptId, seq, type, metadata, createdAt };
}

/**
 * When an event that a pipeline appends is said to have happened: now, yet never before the one it follows. The log is read in
 * order of time, and MongoDB's clock may go back when another member becomes primary.
 */
export const EVENT_TIME = {
  $let: {
    vars: { last: { $arrayElemAt: ['$events', -1] } },
    in: { $toDate: { $max: [NOW_MS, msOf('$$last.createdAt')] } },
  },
};

/** The newest `limit` events of the attempt, ascending. No query when they all stand in its tail. */
export async function newestEvents(mongo: Mongo, attempt: Attempt, limit: number): Promise<AttemptEvent[]> {
  const tail = attempt.events.slice(-limit);
  const wantsOlder = tail.length < limit && attempt.eventSeq > tail.length;
  const stubs = tail.filter((event) => event.inRow === true);
  if (!wantsOlder && stubs.length === 0) return tail;
  const from = wantsOlder ? attempt.eventSeq - limit : Math.min(...stubs.map((stub) => stub.seq)) - 1;
  const rows = await eventRows(mongo)
    .find(
      { attemptId: attempt._id, seq: { $gt: from, $lte: attempt.eventSeq } },
      { sort: { seq: 1 }, maxTimeMS: QUERY_LIMIT_MS },
    )
    .toArray();
  return merge(tail, rows);
}

function merge(tail: readonly AttemptEvent[], rows: readonly AttemptEvent[]): AttemptEvent[] {
  const bySeq = new Map<number, AttemptEvent>();
  for (const row of rows) bySeq.set(row.seq, row);
  for (const event of tail) if (event.inRow !== true) bySeq.set(event.seq, event);
  return [...bySeq.values()].sort((a, b) => a.seq - b.seq);
}

/** Every event of the attempt as it was read, ascending, from a cursor: the log may be far larger than memory likes. */
export async function* allEvents(mongo: Mongo, attempt: Attempt): AsyncGenerator<AttemptEvent> {
  const pending = attempt.events.filter((event) => event.inRow !== true);
  const cursor = eventRows(mongo).find(
    { attemptId: attempt._id, seq: { $lte: attempt.eventSeq } },
    { sort: { seq: 1 } },
  );
  for await (const row of cursor) {
    // A roll since the read may have moved events that we hold in the tail: the row wins, each is told once.
    while (pending[0] !== undefined && pending[0].seq <= row.seq) {
      const event = pending.shift();
      if (event !== undefined && event.seq < row.seq) yield event;
    }
    yield row;
  }
  yield* pending;
}
