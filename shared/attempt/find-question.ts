import { derivedId } from '#shared/kernel/ids.ts';
import type { Paper, Question } from './question.ts';

/** The attempt question's id: the one its sender gave, else one derived from the attempt and the paper index. */
export function questionIdAt(attemptId: string, paperIndex: number, question: Pick<Question, 'id'>): string {
  return question.id ?? derivedId(attemptId, `question:${paperIndex}`);
}

/**
 * The paper index of the question that an answer or handoff names by its questionId or by its id in this attempt;
 * null when the attempt has no such question. The questionId is looked for first, and the names of a paper never
 * meet (`copyPaper`), so the order only saves work.
 */
export function paperIndexOf(attemptId: string, paper: Paper, name: string): number | null {
  const byQuestionId = paper.questions.findIndex((question) => question.questionId === name);
  if (byQuestionId >= 0) return byQuestionId;
  const byId = paper.questions.findIndex((question, index) => questionIdAt(attemptId, index, question) === name);
  return byId >= 0 ? byId : null;
}
