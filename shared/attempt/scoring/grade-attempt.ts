import { type AnswerContent, answerKeyOf } from '#shared/attempt/attempt.ts';
import { isScoredByHand, type Paper } from '#shared/attempt/question.ts';
import { sumExactly } from '#shared/kernel/decimal.ts';
import { type Grade, scoreQuestion } from './score-question.ts';

export interface Totals {
  totalScore: number;
  correctCount: number;
  /** Graded questions without full score, unanswered ones included. */
  wrongCount: number;
  /** Answered questions that still wait for a grade by hand; in neither of the other counts. */
  pendingManualCount: number;
}

export interface Grading {
  /** One grade per stored answer, under the same keys as the attempt's answers. */
  answers: Record<string, Grade>;
  totals: Totals;
}

/** Grades a whole attempt from nothing but its copied paper and its stored answers. */
export function gradeAttempt(paper: Paper, stored: Readonly<Record<string, AnswerContent>>): Grading {
  const answers: Record<string, Grade> = {};
  for (const [index, question] of paper.questions.entries()) {
    const key = answerKeyOf(index);
    const answer = stored[key];
    if (answer !== undefined) answers[key] = scoreQuestion(question, answer);
  }
  return { answers, totals: totalsOf(paper, answers) };
}

/**
 * The totals as a function of the graded answers, and of nothing else: grading and every later grade by hand go
 * through here, so that stored totals can always be recomputed. A question without a stored answer counts 0.
 */
export function totalsOf(
  paper: Paper,
  answers: Readonly<Record<string, { isCorrect: boolean | null; score: number | null }>>,
): Totals {
  const scores: number[] = [];
  let correctCount = 0;
  let wrongCount = 0;
  let pendingManualCount = 0;
  for (const [index, question] of paper.questions.entries()) {
    const answer = answers[answerKeyOf(index)];
    if (answer !== undefined && answer.score === null && isScoredByHand(question)) {
      pendingManualCount += 1;
      continue;
    }
    scores.push(answer?.score ?? 0);
    if (answer?.isCorrect === true) correctCount += 1;
    else wrongCount += 1;
  }
  return { totalScore: sumExactly(scores), correctCount, wrongCount, pendingManualCount };
}
