import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import type { Attempt, AttemptEvent } from '#shared/attempt/attempt.ts';
import { eventRows } from './collections.ts';

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

function merge(tail: readonly AttemptEvent[], rows: readonly AttemptEvent[]): AttemptEvent[] {
  const bySeq = new Map<number, AttemptEvent>();
  for (const row of rows) bySeq.set(row.seq, row);
  for (const event of tail) if (event.inRow !== true) bySeq.set(event.seq, event);
  return [...bySeq.values()].sort((a, b) => a.seq - b.seq);
}
