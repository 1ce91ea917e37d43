import { type CsvCell, type CsvFormat, csvLine } from './csv.ts';
import type { Statistics } from './statistics.ts';

const HEADER = [
  'orderIndex',
  'questionId',
  'type',
  'maxScore',
  'answered',
  'blank',
  'facility',
  'discrimination',
  'upper27',
  'lower27',
  'flags',
  'options',
  'attempts',
  'mean',
  'median',
  'standardDeviation',
  'alpha',
  'standardError',
];

/**
 * Returns the lines of a table with one line for each question. Those of the whole exam are repeated in each line, so that a spreadsheet can
 * sort and filter one table. An option is written as `id count upper27 lower27`.
 */
export function* statisticsLines(statistics: Statistics, format: CsvFormat): Generator<string> {
  const { attempts, mean, median, standardDeviation, alpha, standardError } = statistics;
  yield csvLine(HEADER, format);
  for (const question of statistics.questions) {
    const options = question.options.map(({ id, count, upper27, lower27 }) =>
      [id, count, ...(upper27 === null ? [] : [upper27, lower27])].join(' '),
    );
    const cells: CsvCell[] = [
      question.orderIndex,
      question.questionId,
      question.type,
      question.maxScore,
      question.answered,
      question.blank,
      question.facility,
      question.discrimination,
      question.upper27,
      question.lower27,
      question.flags.join(' '),
      options.join('|'),
      attempts,
      mean,
      median,
      standardDeviation,
      alpha,
      standardError,
    ];
    yield csvLine(cells, format);
  }
}
