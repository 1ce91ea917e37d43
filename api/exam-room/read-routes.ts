import type { Route, Tag } from '#api/route.ts';
import { readBoard, streamBoard } from './board.ts';
import { downloadResults } from './downloads.ts';
import { EXAMINER } from './examiner.ts';
import { listExaminedExams } from './exams.ts';
import type { ReadDeps } from './read-deps.ts';
import { downloadStatistics, drawStatistics, readStatistics } from './statistics.ts';

/** Returns the routes by which examiners watch an exam and take its results. A student, parent or service never reads them. */
export function examReadRoutes(deps: ReadDeps, tag: Tag): Route[] {
  const read = { method: 'GET', tag, guards: EXAMINER } as const;
  const ofExam = { ...read, params: { examId: 'Id of the exam' }, errors: ['EXAM_NOT_FOUND'] } as const;
  return [
    {
      ...read,
      path: '/v1/exams',
      operation: 'listExams',
      summary: 'List the exams that the caller examines, with the counts of their attempts',
      description:
        'Returns the exams of which the caller examines an attempt, newest first start first. `next` of a reply is `before` of the next one. An exam is known from its first start on. A read changes nothing and can be repeated.',
      query: 'exam-room/exam-list-query',
      replies: [{ status: 200, schema: 'exam-room/exam-list', description: 'A page of exams' }],
      errors: [],
      handle: (call) => listExaminedExams(deps, call),
    },
    {
      ...ofExam,
      path: '/v1/exams/:examId/board',
      operation: 'readBoard',
      summary: 'Get a page of the board: who sits, who is away, silent or overdue',
      description:
        'Returns a row for each attempt that the caller examines, ascending by student, and the counts of all of them. `next` of a reply is `after` of the next one. Follow the board by its stream instead of reading it again and again.',
      query: 'exam-room/board-query',
      replies: [{ status: 200, schema: 'exam-room/board', description: 'Counts and a page of rows' }],
      handle: (call) => readBoard(deps, call),
    },
    {
      ...ofExam,
      path: '/v1/exams/:examId/board/stream',
      operation: 'streamBoard',
      summary: 'Follow the board live (server-sent events)',
      description:
        'Sends `snapshot` with the counts, then `rows` with each row that has changed, at most once a second, and `summary` when a count has changed. Read the rows by `GET …/board` after the snapshot. A row that turns silent or overdue is sent as well. The stream ends after ten minutes; connect again, and read the rows again.',
      replies: [{ status: 200, schema: 'exam-room/board-stream', description: 'Events, until the client leaves' }],
      errors: ['EXAM_NOT_FOUND', 'RATE_LIMITED'],
      handle: (call) => streamBoard(deps, call),
    },
    {
      ...ofExam,
      path: '/v1/exams/:examId/statistics',
      operation: 'readStatistics',
      summary: 'Get statistics of an exam and of each of its questions',
      description:
        'Counts the graded attempts that the caller examines, without voided ones: by default the first one of each student. A question that waits for a grade by hand counts where it is graded. Callers of the same two seconds may share a count.',
      query: 'exam-room/statistics-query',
      replies: [{ status: 200, schema: 'exam-room/statistics', description: 'Statistics at six places' }],
      handle: (call) => readStatistics(deps, call),
    },
    {
      ...ofExam,
      path: '/v1/exams/:examId/statistics.csv',
      operation: 'downloadStatistics',
      summary: 'Download the statistics of each question as CSV',
      description:
        'Returns the statistics as a table with a line for each question; the numbers of the exam are repeated in each line. A text that a spreadsheet would run as a formula begins with an apostrophe.',
      query: 'exam-room/statistics-query',
      replies: [{ status: 200, schema: 'exam-room/statistics-file', description: 'CSV file, without envelope' }],
      handle: (call) => downloadStatistics(deps, call),
    },
    {
      ...ofExam,
      path: '/v1/exams/:examId/statistics.svg',
      operation: 'drawStatistics',
      summary: 'Get the distribution of the totals as a picture',
      description:
        'Returns the histogram of the totals with their mean as an SVG for a slide, in Vietnamese. It loads nothing from elsewhere.',
      query: 'exam-room/statistics-query',
      replies: [{ status: 200, schema: 'exam-room/histogram-picture', description: 'SVG, without envelope' }],
      handle: (call) => drawStatistics(deps, call),
    },
    {
      ...ofExam,
      path: '/v1/exams/:examId/results.csv',
      operation: 'downloadResults',
      summary: 'Download the results of an exam as CSV',
      description:
        'Streams a line for each attempt that the caller examines, by student, with the score and the answer of each question. Scores are shown whatever students see. The columns are those of all attempts. A text that a spreadsheet would run as a formula begins with an apostrophe. Each download is a row of the audit.',
      query: 'exam-room/results-query',
      replies: [{ status: 200, schema: 'exam-room/results-file', description: 'CSV file, without envelope' }],
      handle: (call) => downloadResults(deps, call),
    },
  ];
}
