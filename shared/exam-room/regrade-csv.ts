import type { Correction } from '#shared/attempt/correction.ts';
import type { CsvCell } from './csv.ts';
import { type InfoLayout, infoCells, infoHeader } from './info-columns.ts';
import type { StoredLine } from './regrade-view.ts';

/** The columns of the file of a regrade: of the students' descriptions, and of the questions that change. */
export interface RegradeLayout {
  readonly info: InfoLayout;
  readonly questionIds: readonly string[];
}

/** Returns the columns of a file. */
export function regradeLayout(info: InfoLayout, changes: readonly Correction[]): RegradeLayout {
  return { info, questionIds: [...new Set(changes.map(({ questionId }) => questionId))] };
}

/** Returns the header of the file. */
export function regradeHeader({ info, questionIds }: RegradeLayout): string[] {
  return [
    'attemptId',
    'studentId',
    ...infoHeader(info),
    'before.totalScore',
    'before.maxScore',
    'after.totalScore',
    'after.maxScore',
    ...questionIds.flatMap((id) => [`${id}:before`, `${id}:after`]),
  ];
}

/** Returns the cells of one attempt. A question whose score stays has empty ones. */
export function regradeCells(line: StoredLine, { info, questionIds }: RegradeLayout): CsvCell[] {
  const scores = new Map(line.questions.map((question) => [question.questionId, question]));
  return [
    line.attemptId,
    line.studentId,
    ...infoCells(line.studentInfo, info),
    line.before.totalScore,
    line.before.maxScore,
    line.after.totalScore,
    line.after.maxScore,
    ...questionIds.flatMap((id) => [scores.get(id)?.before ?? null, scores.get(id)?.after ?? null]),
  ];
}
