import { isWritten } from '#api/http/streamed.ts';
import type { Call, RawReply } from '#api/route.ts';
import { appliedRegrades } from '#infra/mongo/attempt/corrections.ts';
import { columnRows, resultRows } from '#infra/mongo/exam-room/results.ts';
import { logActs, writeAudit } from '#infra/mongo/operator-audit.ts';
import { openCorrectedCopies } from '#shared/attempt/correction.ts';
import { chosenAttempts } from '#shared/exam-room/choice.ts';
import { BYTE_ORDER_MARK, type CsvFormat, csvLine } from '#shared/exam-room/csv.ts';
import { ResultColumns, resultCells, resultHeader } from '#shared/exam-room/results-csv.ts';
import type { ResultsQuery } from '#shared/generated/exam-room.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { examOf } from './examiner.ts';
import type { ReadDeps } from './read-deps.ts';

/** Characters of lines that are written together. */
const CHUNK = 64 * 1024;

/**
 * Sends a CSV file line by line. It begins with its first line, so that a file that cannot be read at all is refused. One that fails later
 * is cut, so that no reader takes a part of it for the whole.
 */
export function csvReply(call: Pick<Call, 'signal'>, name: string, lines: () => AsyncIterable<string>): RawReply {
  const head = {
    'Content-Type': 'text/csv; charset=utf-8',
    'Content-Disposition': `attachment; filename="${name.replace(/[^\w.-]/g, '_')}.csv"`,
    'Cache-Control': 'no-store',
  };
  return {
    kind: 'raw',
    async raw(response) {
      let text = BYTE_ORDER_MARK;
      for await (const line of lines()) {
        text += line;
        if (text.length < CHUNK) continue;
        if (!response.headersSent) response.writeHead(200, head);
        if (!(await isWritten(response, text, call.signal))) return;
        text = '';
      }
      if (!response.headersSent) response.writeHead(200, head);
      response.end(text);
    },
  };
}

/**
 * Sends the results of an exam as a file for a spreadsheet. Its columns depend on all attempts, so these are read twice: once for the
 * columns, then for the lines. The download is a row of the audit before its first byte.
 */
export async function downloadResults(deps: ReadDeps, call: Call<never, ResultsQuery>): Promise<RawReply | Rejection> {
  const exam = await examOf(deps, call);
  if (isRejection(exam)) return exam;
  const { examId, by } = exam;
  const { attempts: choice = 'all', separator = ',', decimal = '.' } = call.query;
  const now = deps.now();
  const walked = { examId, by, until: new Date(now), onlyCounted: choice !== 'all' };
  const columns = await columnsOf(deps, walked);

  const reason = 'results downloaded';
  const committed = logActs(deps.log, { requestId: call.requestId });
  const line = {
    action: 'exam.results-downloaded',
    subject: examId,
    detail: { attempts: choice, role: by.role },
  } as const;
  await writeAudit(deps.mongo, { operator: by.id, reason, now, committed }, line);
  return csvReply(call, `results-${examId}`, () => resultLines(deps, walked, columns, choice, { separator, decimal }));
}

type Walked = Parameters<typeof resultRows>[1];

async function columnsOf(deps: ReadDeps, walked: Walked): Promise<ResultColumns> {
  const columns = new ResultColumns();
  for await (const { studentInfo, paperId } of columnRows(deps.mongo, walked)) {
    columns.info.add(studentInfo);
    if (!columns.hasPaper(paperId)) columns.addPaper(paperId, await deps.papers.find(paperId));
  }
  return columns;
}

async function* resultLines(
  deps: ReadDeps,
  walked: Walked,
  columns: ResultColumns,
  choice: NonNullable<ResultsQuery['attempts']>,
  format: CsvFormat,
): AsyncGenerator<string> {
  const layout = columns.layout();
  const corrected = openCorrectedCopies(await appliedRegrades(deps.mongo, walked.examId));
  yield csvLine(resultHeader(layout), format);
  for await (const attempt of chosenAttempts(resultRows(deps.mongo, walked), choice)) {
    // It was stored since the columns were read. Without columns for its questions, its line would lack its answers.
    if (!columns.hasPaper(attempt.paperId)) continue;
    const paper = corrected(attempt, await deps.papers.find(attempt.paperId));
    yield csvLine(resultCells(attempt, paper, layout), format);
  }
}
