import type { Call, RawReply, Reply } from '#api/route.ts';
import { histogramSvg } from '#shared/exam-room/histogram.ts';
import { statisticsLines } from '#shared/exam-room/statistics-csv.ts';
import type { StatisticsQuery } from '#shared/generated/exam-room.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { csvReply } from './downloads.ts';
import type { NamedStatistics } from './exam-statistics.ts';
import { examOf } from './examiner.ts';
import type { ReadDeps } from './read-deps.ts';

/** Returns the statistics of the attempts that the caller examines. */
export async function readStatistics(deps: ReadDeps, call: Call<never, StatisticsQuery>): Promise<Reply | Rejection> {
  const found = await statisticsFor(deps, call);
  return isRejection(found) ? found : { status: 200, data: found.statistics };
}

/** Sends them as a table for a spreadsheet. */
export async function downloadStatistics(
  deps: ReadDeps,
  call: Call<never, StatisticsQuery>,
): Promise<RawReply | Rejection> {
  const found = await statisticsFor(deps, call);
  if (isRejection(found)) return found;
  const { separator = ',', decimal = '.' } = call.query;
  const lines = async function* () {
    yield* statisticsLines(found.statistics, { separator, decimal });
  };
  return csvReply(call, `statistics-${call.params.examId}`, lines);
}

/** Sends the distribution of the totals as a picture. */
export async function drawStatistics(
  deps: ReadDeps,
  call: Call<never, StatisticsQuery>,
): Promise<RawReply | Rejection> {
  const found = await statisticsFor(deps, call);
  if (isRejection(found)) return found;
  const svg = Buffer.from(histogramSvg(found.statistics, found.title));
  return {
    kind: 'raw',
    async raw(response) {
      response.writeHead(200, {
        'Content-Type': 'image/svg+xml; charset=utf-8',
        'Content-Length': svg.length,
        'Cache-Control': 'no-store',
        // The title comes from the exam service. A browser that opens the picture as a page runs nothing of it.
        'Content-Security-Policy': "default-src 'none'; sandbox",
        'X-Content-Type-Options': 'nosniff',
      });
      response.end(svg);
    },
  };
}

async function statisticsFor(deps: ReadDeps, call: Call<never, StatisticsQuery>): Promise<NamedStatistics | Rejection> {
  const exam = await examOf(deps, call);
  if (isRejection(exam)) return exam;
  return deps.statistics({ examId: exam.examId, by: exam.by, choice: call.query.attempts ?? 'first' });
}
