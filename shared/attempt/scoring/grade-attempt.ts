import { type AnswerContent, type Attempt, answerKeyOf, type StoredAnswer } from '#shared/attempt/attempt.ts';
import { isScoredByHand, type Paper } from '#shared/attempt/question.ts';
import { sumExactly } from '#shared/kernel/decimal.ts';
import type { Pieces } from '#shared/kernel/pieces.ts';
import { type Grade, scoreQuestion } from './score-question.ts';

export interface Totals {
  totalScore: number;
  /** Graded questions with full score. Practice (a question of 0 points) is counted neither here nor in `wrongCount`. */
  correctCount: number;
  /** Graded questions without full score, unanswered ones included. */
  wrongCount: number;
  /** Answered questions that still wait for a grade by hand. They are in no other count. */
  pendingManualCount: number;
}

export interface Grading {
  /** One grade per stored answer, under the same keys as the attempt's answers. */
  answers: Record<string, Grade>;
  totals: Totals;
}

/**
 * Grades a whole attempt from its copied paper and its stored answers alone, question by question: one of them may compare a long answer
 * with 100 accepted ones. A grade by hand of an earlier round stands if its answer has not changed since.
 */
export function* gradeAttempt(
  paper: Paper,
  stored: Readonly<Record<string, AnswerContent & Pick<StoredAnswer, 'standing'>>>,
): Pieces<Grading> {
  const answers: Record<string, Grade> = {};
  for (const [index, question] of paper.questions.entries()) {
    const key = answerKeyOf(index);
    const answer = stored[key];
    if (answer !== undefined) answers[key] = answer.standing ?? scoreQuestion(question, answer);
    yield;
  }
  return { answers, totals: totalsOf(paper, answers) };
}

/** Returns a submitted attempt as its grading leaves it. Notices and analytics are decided on it. */
export function asGraded(attempt: Attempt, grading: Grading): Attempt {
  const answers = Object.fromEntries(
    Object.entries(attempt.answers).map(([key, answer]) => [key, { ...answer, ...grading.answers[key] }]),
  );
  return { ...attempt, ...grading.totals, status: 'GRADED', answers };
}

/**
 * Returns the totals of graded answers. Grading and every later grade by hand use this function, so that stored totals can
 * always be recomputed from the answers. A question without a stored answer scores 0.
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
    if (question.score === 0) continue;
    scores.push(answer?.score ?? 0);
    if (answer?.isCorrect === true) correctCount += 1;
    else wrongCount += 1;
  }
  return { totalScore: sumExactly(scores), correctCount, wrongCount, pendingManualCount };
}
