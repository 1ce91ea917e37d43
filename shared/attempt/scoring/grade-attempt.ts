import { type AnswerContent, type Attempt, answerKeyOf, type StoredAnswer } from '#shared/attempt/attempt.ts';
import { maxScoreOf } from '#shared/attempt/correction.ts';
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
  /** The sum of the questions' scores, without those that a correction has taken out. */
  maxScore: number;
}

/**
 * Grades a whole attempt from its copied paper and its stored answers alone, question by question: one of them may compare a long answer
 * with 100 accepted ones. A grade by hand of an earlier round stands if its answer has not changed since, and gives way to an award.
 */
export function* gradeAttempt(
  paper: Paper,
  stored: Readonly<Record<string, AnswerContent & Pick<StoredAnswer, 'standing'>>>,
): Pieces<Grading> {
  const answers: Record<string, Grade> = {};
  for (const [index, question] of paper.questions.entries()) {
    const key = answerKeyOf(index);
    const answer = stored[key];
    if (answer !== undefined) {
      const standing = question.award === undefined ? answer.standing : undefined;
      answers[key] = standing ?? scoreQuestion(question, answer);
    }
    yield;
  }
  return { answers, totals: totalsOf(paper, answers), maxScore: maxScoreOf(paper) };
}

/**
 * Grades an attempt anew, as `gradeAttempt` does, after a correction of its paper. Grades by hand stand: no correction concerns their
 * questions.
 */
export function* regradeAttempt(paper: Paper, stored: Attempt['answers']): Pieces<Grading> {
  const { answers } = yield* gradeAttempt(paper, stored);
  for (const [index, question] of paper.questions.entries()) {
    const key = answerKeyOf(index);
    const answer = stored[key];
    if (answer === undefined || !isScoredByHand(question)) continue;
    const { isCorrect, score } = answer;
    answers[key] = isCorrect === null || score === null ? { isCorrect: null, score: null } : { isCorrect, score };
  }
  return { answers, totals: totalsOf(paper, answers), maxScore: maxScoreOf(paper) };
}

/**
 * Returns the score of each question of a paper, in its order: null while a grade by hand is pending, and for a question that a correction
 * has taken out.
 */
export function questionScores(
  paper: Paper,
  answers: Readonly<Record<string, { score: number | null }>>,
): (number | null)[] {
  return paper.questions.map((question, index) => {
    if (question.award !== undefined) return scoreQuestion(question, undefined).score;
    const answer = answers[answerKeyOf(index)];
    return answer === undefined ? 0 : answer.score;
  });
}

/** Returns a submitted attempt as its grading leaves it. Notices and analytics are decided on it. */
export function asGraded(attempt: Attempt, grading: Grading): Attempt {
  const answers = Object.fromEntries(
    Object.entries(attempt.answers).map(([key, answer]) => [key, { ...answer, ...grading.answers[key] }]),
  );
  return { ...attempt, ...grading.totals, maxScore: grading.maxScore, status: 'GRADED', answers };
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
    // A correction gives its mark without a stored answer too.
    const answer = question.award === undefined ? answers[answerKeyOf(index)] : scoreQuestion(question, undefined);
    if (answer !== undefined && answer.score === null && isScoredByHand(question)) {
      pendingManualCount += 1;
      continue;
    }
    if (question.score === 0 || question.award === 'EXCLUDE') continue;
    scores.push(answer?.score ?? 0);
    if (answer?.isCorrect === true) correctCount += 1;
    else wrongCount += 1;
  }
  return { totalScore: sumExactly(scores), correctCount, wrongCount, pendingManualCount };
}
