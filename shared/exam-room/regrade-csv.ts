import type { Correction } from '#shared/attempt/correction.ts';
import type { CsvCell } from './csv.ts';
import type { StoredLine } from './regrade-view.ts';
import { scalarsOf } from './results-csv.ts';

/** The columns of the file of a regrade: of the students' descriptions, and of the questions that change. */
export interface RegradeLayout {
  readonly info: readonly string[];
  readonly questionIds: readonly string[];
}

/** Returns the columns of a file. `info`: the names that the descriptions of its students have. */
export function regradeLayout(info: Iterable<string>, changes: readonly Correction[]): RegradeLayout {
  return { info: [...info].sort(), questionIds: [...new Set(changes.map(({ questionId }) => questionId))] };
}

/** Returns the header of the file. */
export function regradeHeader({ info, questionIds }: RegradeLayout): string[] {
  return [
    'attemptId',
    'studentId',
    ...info.map((name) => `studentInfo.${name}`),
    'before.totalScore',
    'before.maxScore',
    'after.totalScore',
    'after.maxScore',
    ...questionIds.flatMap((id) => [`${id}:before`, `${id}:after`]),
  ];
}

/** Returns the cells of one attempt. A question whose score stays has empty ones. */
export function regradeCells(line: StoredLine, { info, questionIds }: RegradeLayout): CsvCell[] {
  const members = new Map(scalarsOf(line.studentInfo));
  const scores = new Map(line.questions.map((question) => [question.questionId, question]));
  return [
    line.attemptId,
    line.studentId,
    ...info.map((name) => members.get(name) ?? null),
    line.before.totalScore,
    line.before.maxScore,
    line.after.totalScore,
    line.after.maxScore,
    ...questionIds.flatMap((id) => [scores.get(id)?.before ?? null, scores.get(id)?.after ?? null]),
  ];
}
