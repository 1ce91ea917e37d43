import { type Attempt, answerKeyOf, type StoredAnswer } from '#shared/attempt/attempt.ts';
import type { Paper } from '#shared/attempt/question.ts';
import { questionScores } from '#shared/attempt/scoring/grade-attempt.ts';
import { percentOf } from '#shared/kernel/decimal.ts';
import type { CsvCell } from './csv.ts';
import { authoredIndex } from './graded-row.ts';
import { InfoColumns, type InfoLayout, infoCells, infoHeader } from './info-columns.ts';

/** The fields of an attempt that its line shows. */
export type ResultFacts = Pick<
  Attempt,
  | '_id'
  | 'studentId'
  | 'studentInfo'
  | 'attemptNumber'
  | 'status'
  | 'startedAt'
  | 'submittedAt'
  | 'submittedBy'
  | 'durationSeconds'
  | 'totalScore'
  | 'maxScore'
  | 'correctCount'
  | 'wrongCount'
  | 'pendingManualCount'
  | 'away'
  | 'voidedAt'
  | 'paperId'
  | 'answers'
>;

/** The columns that depend on the attempts of the exam. They have to be known before the first line. */
export class ResultColumns {
  readonly info = new InfoColumns();
  readonly #papers = new Set<string>();
  readonly #questions = new Map<string, number>();

  hasPaper(paperId: string): boolean {
    return this.#papers.has(paperId);
  }

  /** Adds the questions of a paper. If papers number a question differently, its smallest number counts. */
  addPaper(paperId: string, paper: Paper): void {
    this.#papers.add(paperId);
    for (const [index, { questionId }] of paper.questions.entries()) {
      const orderIndex = authoredIndex(paper, index);
      this.#questions.set(questionId, Math.min(orderIndex, this.#questions.get(questionId) ?? orderIndex));
    }
  }

  /** Returns the header and the lines of these columns. */
  layout(): ResultLayout {
    const questions = [...this.#questions].sort(
      ([one, first], [other, second]) => first - second || (one < other ? -1 : 1),
    );
    return {
      info: this.info.layout(),
      questions: questions.map(([questionId, orderIndex]) => ({ questionId, orderIndex })),
    };
  }
}

interface ResultLayout {
  readonly info: InfoLayout;
  readonly questions: readonly { questionId: string; orderIndex: number }[];
}

export function resultHeader({ info, questions }: ResultLayout): string[] {
  return [
    'studentId',
    ...infoHeader(info),
    'attemptNumber',
    'status',
    'startedAt',
    'submittedAt',
    'submittedBy',
    'durationSeconds',
    'totalScore',
    'maxScore',
    'scorePercent',
    'correctCount',
    'wrongCount',
    'pendingManualCount',
    'awayCount',
    'voided',
    ...questions.flatMap(({ questionId, orderIndex }) => {
      const name = `${orderIndex}:${questionId}`;
      return [`${name}:score`, `${name}:answer`];
    }),
  ];
}

/** Returns the cells of one attempt, in the order of the header. A question that its paper lacks has empty cells. */
export function resultCells(attempt: ResultFacts, paper: Paper, { info, questions }: ResultLayout): CsvCell[] {
  const places = new Map(paper.questions.map(({ questionId }, index) => [questionId, index]));
  return [
    attempt.studentId,
    ...infoCells(attempt.studentInfo, info),
    attempt.attemptNumber,
    attempt.status,
    attempt.startedAt,
    attempt.submittedAt,
    attempt.submittedBy,
    attempt.durationSeconds,
    attempt.totalScore,
    attempt.maxScore,
    attempt.totalScore === null ? null : percentOf(attempt.totalScore, attempt.maxScore),
    attempt.correctCount,
    attempt.wrongCount,
    attempt.pendingManualCount,
    attempt.away?.count ?? 0,
    attempt.voidedAt != null,
    ...questions.flatMap(({ questionId }): CsvCell[] => {
      const index = places.get(questionId);
      if (index === undefined) return [null, null];
      const answer = attempt.answers[answerKeyOf(index)];
      return [scoreCell(attempt, paper, index), answer === undefined ? null : answerText(answer)];
    }),
  ];
}

/** Returns the points of a question: none before the grade, while it waits for a grade by hand, and once a regrade has taken it out. */
function scoreCell({ status, answers }: ResultFacts, paper: Paper, index: number): number | null {
  if (status !== 'GRADED') return null;
  return questionScores(paper, answers)[index] ?? null;
}

/** Returns an answer as text: the ids of the options, the judged statements, or the text itself. */
function answerText({ selected, statements, text }: StoredAnswer): string {
  if (selected !== undefined) return selected.join('|');
  const judged = statements?.filter(({ value }) => value !== null) ?? [];
  return text ?? judged.map(({ statementId, value }) => `${statementId}=${value}`).join('|');
}
