import { msOf, NOW_MS } from '#infra/mongo/server-time.ts';
import type { Attempt, AttemptEvent } from '#shared/attempt/attempt.ts';
import { EVENT_TAIL_CAP, EVENT_TAIL_KEEP, METADATA_ROW_BYTES } from '#shared/attempt/limits.ts';
import type { EventRow } from './collections.ts';

/** Where a new event goes: the attempt document's next tail, and the rows that its transaction inserts. */
export interface PlacedEvent {
  tail: AttemptEvent[];
  eventSeq: number;
  rows: EventRow[];
}

/** Metadata this long would make every later save of the attempt dearer: it lies in a row, the tail keeps a stub. */
export function needsRow(metadata: string): boolean {
  return Buffer.byteLength(metadata) > METADATA_ROW_BYTES;
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

function eventRow(attemptId: string, { seq, type, metadata, createdAt }: AttemptEvent): EventRow {
  return { _id: `${attemptId}:${seq}`, attemptId, seq, type, metadata, createdAt };
}
