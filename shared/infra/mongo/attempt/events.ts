import type { ClientSession, Document } from 'mongodb';
import { inCausalOrder, readIn } from '#infra/mongo/causal-read.ts';
import { BY_ID, type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { guardedUpdate, literal, msOf, NOW_MS, wasAccepted } from '#infra/mongo/guarded-update.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import { gather, type Part } from '#infra/process/gather.ts';
import type { Attempt, AttemptEvent, AttemptKey, ClientEventType } from '#shared/attempt/attempt.ts';
import { MAX_CLIENT_EVENTS, METADATA_ROW_BYTES } from '#shared/attempt/limits.ts';
import { attempts, type EventRow, eventRows, whereKey } from './collections.ts';
import {
  type EventTails,
  eventRow,
  eventRowId,
  hasTailRoom,
  oldEvents,
  putRows,
  rowsOf,
  tailAfter,
} from './event-tail.ts';

/**
 * The log of an attempt. The newest events are a tail inside the attempt document. Older events and events with long metadata are
 * rows of their own. `seq` numbers all of them without a gap. While a tail is rolled, an event may be in both places, so every reader
 * shows each seq once.
 */

interface EventWrite {
  attempt: AttemptKey;
  type: ClientEventType;
  /** JSON text. */
  metadata: string;
}

type Appended = { kind: 'appended'; event: AttemptEvent } | { kind: 'full' } | { kind: 'missing' };

/**
 * Appends an event that a client reported, in any state of the attempt. This takes one command, or a transaction if the tail is
 * full or the metadata is long. `full`: the attempt has MAX_CLIENT_EVENTS client events; a TIMEOUT is neither counted nor refused.
 * `missing`: the student has no such attempt.
 */
export async function appendClientEvent(
  mongo: Mongo,
  tails: EventTails,
  write: EventWrite,
  { budgetMs, now }: { budgetMs: number; now: () => number },
): Promise<Appended> {
  if (needsRow(write.metadata)) return appendWithRows(mongo, write, budgetMs, now);
  const quick = await appendToTail(mongo, tails, write);
  return quick.kind === 'appended' ? quick : appendWithRows(mongo, write, budgetMs, now);
}

/** Returns the condition under which the log takes an event of this type, and the next count of limited events. */
function countOf(type: ClientEventType): { hasRoom: Document; clientEvents: Document | string } {
  if (type === 'TIMEOUT') return { hasRoom: literal(true), clientEvents: '$clientEvents' };
  return {
    hasRoom: { $lt: ['$clientEvents', MAX_CLIENT_EVENTS] },
    clientEvents: { $add: ['$clientEvents', 1] },
  };
}

/**
 * Returns what the board of the exam shows after an event of the student, as `foldAway` decides it. After the submit, a hidden page is no
 * time away.
 */
function signOfStudent(type: ClientEventType): Record<string, unknown> {
  const lastSeenAt = '$$NOW';
  const isOpen = { $eq: ['$status', 'IN_PROGRESS'] };
  const [count, seconds] = [{ $ifNull: ['$away.count', 0] }, { $ifNull: ['$away.seconds', 0] }];
  const since = { $ifNull: ['$away.since', null] };
  switch (type) {
    case 'TAB_HIDDEN': {
      const hidden = { count: { $add: [count, 1] }, seconds, since: '$$NOW' };
      return { lastSeenAt, away: { $cond: [{ $and: [isOpen, { $eq: [since, null] }] }, hidden, '$away'] } };
    }
    case 'FOCUS_RETURNED': {
      const ms = { $max: [0, { $subtract: [NOW_MS, msOf('$away.since')] }] };
      const shown = { count, seconds: { $add: [seconds, { $divide: [ms, 1_000] }] }, since: null };
      return { lastSeenAt, away: { $cond: [{ $and: [isOpen, { $ne: [since, null] }] }, shown, '$away'] } };
    }
    case 'NETWORK_RETRY':
      return { lastSeenAt, networkRetries: { $add: [{ $ifNull: ['$networkRetries', 0] }, 1] } };
    default:
      return { lastSeenAt };
  }
}

/** Appends the event to the tail with one command. `full`: the tail or the whole log has no room. */
async function appendToTail(mongo: Mongo, tails: EventTails, write: EventWrite): Promise<Appended> {
  const event = {
    seq: { $add: ['$eventSeq', 1] },
    type: write.type,
    metadata: literal(write.metadata),
    createdAt: EVENT_TIME,
  };
  const { hasRoom, clientEvents } = countOf(write.type);
  const tail = tailAfter(tails.movedTo(write.attempt._id));
  const update = guardedUpdate([hasRoom, hasTailRoom(tail)], {
    events: { $concatArrays: [tail, [event]] },
    eventSeq: { $add: ['$eventSeq', 1] },
    clientEvents,
    ...signOfStudent(write.type),
  });
  const attempt = await attempts(mongo).findOneAndUpdate(whereKey(write.attempt), update.pipeline, {
    returnDocument: 'after',
    projection: { stamp: 1, events: 1 },
    maxTimeMS: QUERY_LIMIT_MS,
  });
  if (attempt === null || !wasAccepted(update, attempt)) return { kind: 'full' };
  const appended = attempt.events.at(-1);
  if (appended === undefined) throw new Error(`attempt ${write.attempt._id} lost an event`);
  tails.seen(attempt);
  return { kind: 'appended', event: appended };
}

async function appendWithRows(mongo: Mongo, write: EventWrite, budgetMs: number, now: () => number): Promise<Appended> {
  return inTransaction<Appended>(mongo, budgetMs, async (session) => {
    const before = (await attempts(mongo).findOne(whereKey(write.attempt), { session })) as Attempt | null;
    if (before === null) return { kind: 'missing' };
    const event = { type: write.type, metadata: write.metadata, createdAt: new Date(now()) };
    const log = addToEventLog(before, event);
    const { hasRoom, clientEvents } = countOf(write.type);
    const update = guardedUpdate([hasRoom], {
      events: literal(log.tail),
      eventSeq: literal(log.eventSeq),
      clientEvents,
      ...signOfStudent(write.type),
    });
    const after = await attempts(mongo).findOneAndUpdate(whereKey(write.attempt), update.pipeline, {
      returnDocument: 'after',
      projection: { stamp: 1 },
      session,
    });
    if (!wasAccepted(update, after)) return { kind: 'full' };
    await putRows(mongo, log.rows, session);
    const createdAt = log.tail.at(-1)?.createdAt ?? event.createdAt;
    return { kind: 'appended', event: { seq: log.eventSeq, type: event.type, metadata: event.metadata, createdAt } };
  });
}

/** The write of a new event: the next tail of the attempt document, and the rows that its transaction inserts. */
interface EventLogWrite {
  tail: AttemptEvent[];
  eventSeq: number;
  rows: EventRow[];
}

/**
 * Appends one event, dated no earlier than the event before it. If the tail has `cap` events, all but its newest EVENT_TAIL_KEEP
 * move to rows, so no event is lost or reordered.
 */
export function addToEventLog(
  attempt: Pick<Attempt, '_id' | 'events' | 'eventSeq'>,
  event: Omit<AttemptEvent, 'seq'>,
  cap?: number,
): EventLogWrite {
  const last = attempt.events.at(-1);
  const createdAt = last !== undefined && last.createdAt > event.createdAt ? last.createdAt : event.createdAt;
  const numbered: AttemptEvent = { seq: attempt.eventSeq + 1, ...event, createdAt };
  const moved = oldEvents(attempt.events, cap);
  const rows = rowsOf(attempt._id, moved);
  const tail = attempt.events.slice(moved.length);
  if (needsRow(event.metadata)) {
    rows.push(eventRow(attempt._id, numbered));
    tail.push({ ...numbered, metadata: '{}', inRow: true });
  } else {
    tail.push(numbered);
  }
  return { tail, eventSeq: numbered.seq, rows };
}

/**
 * Returns true if the metadata is so long that every later save of the attempt would cost more. It is then stored in a row, and
 * the tail contains a stub.
 */
function needsRow(metadata: string): boolean {
  return Buffer.byteLength(metadata) > METADATA_ROW_BYTES;
}

/**
 * Time of an event that a pipeline appends: now, but never before the event that it follows. The log is read in order of time,
 * and MongoDB's clock may step back when another member becomes primary.
 */
export const EVENT_TIME = {
  $let: {
    vars: { last: { $arrayElemAt: ['$events', -1] } },
    in: { $toDate: { $max: [NOW_MS, msOf('$$last.createdAt')] } },
  },
};

/** Returns the newest `limit` events of the attempt, ascending. Runs no query if the tail contains all of them. */
export type NewestEvents = (attempt: Attempt, limit: number) => Promise<AttemptEvent[]>;

/** Opens the reads of a process. Those of the same moment share one command. */
export function openEventReads(mongo: Mongo): NewestEvents {
  const read = gather((wanted: readonly Span[]) => readSpans(mongo, wanted));
  return async (attempt, limit) => {
    const tail = attempt.events.slice(-limit);
    const wantsOlder = tail.length < limit && attempt.eventSeq > tail.length;
    const stubs = tail.filter((event) => event.inRow === true);
    if (!wantsOlder && stubs.length === 0) return tail;
    const after = wantsOlder ? attempt.eventSeq - limit : Math.min(...stubs.map((stub) => stub.seq)) - 1;
    const span = { attemptId: attempt._id, after: Math.max(0, after), to: attempt.eventSeq };
    const events = merge(tail, await read(span));
    if (events.length >= Math.min(limit, attempt.eventSeq)) return events;
    // The commit that moved events to rows has not arrived on the shard of the rows yet.
    return inCausalOrder(mongo, async (session) => {
      await seeAttempt(mongo, attempt, session);
      return merge(tail, await readSpan(mongo, span, session));
    });
  };
}

/** The events of an attempt above one seq, up to another. */
interface Span {
  readonly attemptId: string;
  readonly after: number;
  readonly to: number;
}

function readSpan(mongo: Mongo, { attemptId, after, to }: Span, session?: ClientSession): Promise<EventRow[]> {
  const options = { ...readIn(session), sort: { seq: 1 }, maxTimeMS: QUERY_LIMIT_MS } as const;
  return eventRows(mongo)
    .find({ attemptId, seq: { $gt: after, $lte: to } }, options)
    .toArray();
}

/** Reads the rows of several attempts by their ids, which follow from attempt and seq. */
async function readSpans(mongo: Mongo, spans: readonly Span[]): Promise<Part<EventRow[]>[]> {
  if (spans.length === 1) return spans.map((span) => readSpan(mongo, span));
  const ids = spans.flatMap(({ attemptId, after, to }) =>
    Array.from({ length: to - after }, (_, index) => eventRowId(attemptId, after + 1 + index)),
  );
  const found = await eventRows(mongo)
    .find(
      { _id: { $in: ids }, attemptId: { $in: spans.map(({ attemptId }) => attemptId) } },
      { hint: BY_ID, batchSize: ids.length + 1, maxTimeMS: QUERY_LIMIT_MS },
    )
    .toArray();
  const ofAttempt = Map.groupBy(found, ({ attemptId }) => attemptId);
  return spans.map(({ attemptId, after, to }) =>
    (ofAttempt.get(attemptId) ?? []).filter(({ seq }) => seq > after && seq <= to),
  );
}

/** Lets later reads of the session show what was committed together with the attempt as it was read before. */
async function seeAttempt(mongo: Mongo, attempt: AttemptKey, session: ClientSession): Promise<void> {
  await attempts(mongo).findOne(whereKey(attempt), { ...readIn(session), projection: { _id: 1 } });
}

function merge(tail: readonly AttemptEvent[], rows: readonly AttemptEvent[]): AttemptEvent[] {
  const bySeq = new Map<number, AttemptEvent>();
  for (const row of rows) bySeq.set(row.seq, row);
  for (const event of tail) if (event.inRow !== true) bySeq.set(event.seq, event);
  return [...bySeq.values()].sort((a, b) => a.seq - b.seq);
}

/**
 * Yields every event that the attempt had when it was read, ascending. Uses a cursor, because the log may be too large for
 * memory. Runs no query if the tail contains all of them.
 */
export async function* allEvents(mongo: Mongo, attempt: Attempt): AsyncGenerator<AttemptEvent> {
  const pending = attempt.events.filter((event) => event.inRow !== true);
  if (pending.length === attempt.eventSeq) return yield* pending;
  const session = mongo.client.startSession();
  try {
    await seeAttempt(mongo, attempt, session);
    yield* withRows(mongo, attempt, pending, session);
  } finally {
    await session.endSession();
  }
}

/** Yields the rows of the log and those events of the tail that have no row, ascending. */
async function* withRows(
  mongo: Mongo,
  attempt: Attempt,
  pending: AttemptEvent[],
  session: ClientSession,
): AsyncGenerator<AttemptEvent> {
  const cursor = eventRows(mongo).find(
    { attemptId: attempt._id, seq: { $lte: attempt.eventSeq } },
    { ...readIn(session), sort: { seq: 1 } },
  );
  for await (const row of cursor) {
    // Another write may have moved events of our tail to rows since the read. The row wins, so that each event is yielded once.
    while (pending[0] !== undefined && pending[0].seq <= row.seq) {
      const event = pending.shift();
      if (event !== undefined && event.seq < row.seq) yield event;
    }
    yield row;
  }
  yield* pending;
}
