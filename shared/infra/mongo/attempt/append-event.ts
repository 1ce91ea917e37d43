import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { guardedUpdate, literal, wasAccepted } from '#infra/mongo/guarded-update.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import type { Attempt, AttemptEvent, ClientEventType } from '#shared/attempt/attempt.ts';
import { EVENT_TAIL_CAP, MAX_CLIENT_EVENTS } from '#shared/attempt/limits.ts';
import { attempts, eventRows } from './collections.ts';
import { EVENT_TIME, needsRow, placeEvent } from './place-event.ts';

export interface EventWrite {
  attemptId: string;
  type: ClientEventType;
  /** JSON text. */
  metadata: string;
}

/**
 * Appends what a client saw to the log, in any state of the attempt: one command, or a transaction when the tail is
 * full or the metadata long. Null: the attempt has logged as many client events as it may.
 */
export async function appendClientEvent(
  mongo: Mongo,
  write: EventWrite,
  budgetMs: number,
  now: () => number,
): Promise<AttemptEvent | null> {
  const quick = needsRow(write.metadata) ? null : await appendToTail(mongo, write);
  return quick ?? appendWithRows(mongo, write, budgetMs, now);
}

const hasRoom = { $lt: ['$clientEvents', MAX_CLIENT_EVENTS] };

async function appendToTail(mongo: Mongo, write: EventWrite): Promise<AttemptEvent | null> {
  const event = {
    seq: { $add: ['$eventSeq', 1] },
    type: write.type,
    metadata: literal(write.metadata),
    createdAt: EVENT_TIME,
  };
  const update = guardedUpdate([hasRoom, { $lt: [{ $size: '$events' }, EVENT_TAIL_CAP] }], {
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
  return wasAccepted(update, attempt) ? (attempt?.events.at(-1) ?? null) : null;
}

async function appendWithRows(
  mongo: Mongo,
  write: EventWrite,
  budgetMs: number,
  now: () => number,
): Promise<AttemptEvent | null> {
  return inTransaction(mongo, budgetMs, async (session) => {
    const before = (await attempts(mongo).findOne({ _id: write.attemptId }, { session })) as Attempt | null;
    if (before === null) throw new Error(`attempt ${write.attemptId} is missing`);
    const event = { type: write.type, metadata: write.metadata, createdAt: new Date(now()) };
    const placed = placeEvent(before, event);
    const update = guardedUpdate([hasRoom], {
      events: literal(placed.tail),
      eventSeq: literal(placed.eventSeq),
      clientEvents: { $add: ['$clientEvents', 1] },
    });
    const after = await attempts(mongo).findOneAndUpdate({ _id: write.attemptId }, update.pipeline, {
      returnDocument: 'after',
      projection: { stamp: 1 },
      session,
    });
    if (!wasAccepted(update, after)) return null;
    if (placed.rows.length > 0) await eventRows(mongo).insertMany(placed.rows, { session });
    return { seq: placed.eventSeq, ...event, createdAt: placed.tail.at(-1)?.createdAt ?? event.createdAt };
  });
}
