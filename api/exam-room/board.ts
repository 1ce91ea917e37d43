import { liveStream } from '#api/http/live-stream.ts';
import type { Call, RawReply, Reply } from '#api/route.ts';
import { boardOf } from '#infra/mongo/exam-room/board.ts';
import { isExaminer, type Viewer } from '#shared/attempt/visibility.ts';
import { type BoardSummary, emptySummary, readBoardCursor } from '#shared/exam-room/board.ts';
import type { BoardQuery } from '#shared/generated/exam-room.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { JsonPart } from '#shared/kernel/json.ts';
import { SECOND } from '#shared/kernel/time.ts';
import { examOf } from './examiner.ts';
import type { Reading } from './live-boards.ts';
import type { ReadDeps } from './read-deps.ts';

const ROWS_PER_PAGE = 100;
/** Bytes that a client may leave unread: a row has about 500, and at the end of an exam all rows change within seconds. */
const MAX_UNREAD_BYTES = 8 * 1024 * 1024;

/** Returns a page of the board of an exam, with the counts of all attempts that the caller examines. */
export async function readBoard(deps: ReadDeps, call: Call<never, BoardQuery>): Promise<Reply | Rejection> {
  const { status, flag, after: cursor, limit = ROWS_PER_PAGE } = call.query;
  const after = cursor == null ? null : readBoardCursor(cursor);
  if (cursor != null && after === null) {
    return { rejected: 'VALIDATION_FAILED', details: [{ path: '/after', message: 'must be `next` of a reply' }] };
  }
  const exam = await examOf(deps, call);
  if (isRejection(exam)) return exam;

  const wanted = { ...exam, status: status ?? null, flag: flag ?? null, after, limit, now: new Date(deps.now()) };
  return { status: 200, data: await boardOf(deps.mongo, wanted) };
}

/**
 * Streams the board of an exam: its counts, then the rows that change, at most once a second. A client reads the rows themselves by
 * `GET …/board`, after the stream has begun. One that reconnects reads them again.
 */
export async function streamBoard(deps: ReadDeps, call: Call): Promise<RawReply | Rejection> {
  const exam = await examOf(deps, call);
  if (isRejection(exam)) return exam;
  const viewer: Viewer = exam.by;
  const changed = new Map<string, JsonPart>();
  let counts: string | null = null;

  return liveStream({
    streams: deps.streams,
    now: deps.now,
    holder: viewer.id,
    call,
    maxUnreadBytes: MAX_UNREAD_BYTES,
    listen: (wake) =>
      deps.boards.watch(exam.examId, (reading) => {
        for (const { id, scope, text } of reading.rows) {
          if (isExaminer(scope, viewer)) changed.set(id, new JsonPart(text));
        }
        counts = JSON.stringify(summaryFor(viewer, reading));
        wake();
      }),
    begin: async () => ({
      kind: 'follow',
      async follow(stream, wakeSignal) {
        let sent: string | null = null;
        while (stream.isLive()) {
          // The counts come first: those of a reader that others watch already may arrive together with rows.
          if (counts !== null && counts !== sent) {
            const event = sent === null ? 'snapshot' : 'summary';
            stream.send({ event, data: { summary: new JsonPart(counts) } });
            sent = counts;
          }
          if (changed.size > 0) stream.send({ event: 'rows', data: { rows: [...changed.values()] } });
          changed.clear();
          await stream.drained();
          if (stream.isLive()) await wakeSignal.wait(60 * SECOND);
        }
      },
    }),
  });
}

/** Returns the counts of the attempts that this examiner sees. */
function summaryFor(viewer: Viewer, { summaries }: Reading): BoardSummary {
  const total = emptySummary();
  for (const { scope, summary } of summaries) {
    if (!isExaminer(scope, viewer)) continue;
    for (const name of Object.keys(total) as (keyof BoardSummary)[]) total[name] += summary[name];
  }
  return total;
}
