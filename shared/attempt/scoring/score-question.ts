import type { AnswerContent } from '#shared/attempt/attempt.ts';
import { isScoredByHand, type Question } from '#shared/attempt/question.ts';
import { decimal, roundScore } from '#shared/kernel/decimal.ts';
import { choiceShare } from './choice.ts';
import { isBlank } from './fold-text.ts';
import { isFull, NOTHING, pointsOf, type Share } from './points.ts';
import { statementsShare } from './statements.ts';
import { textShare } from './text.ts';

/** Points rounded to six places and whether the mark was full before rounding; both null = waits for a grade by hand. */
export type Grade = { isCorrect: boolean; score: number } | { isCorrect: null; score: null };

export const PENDING: Grade = { isCorrect: null, score: null };

/**
 * Grades one question from its copied snapshot. Unanswered is 0 whatever the floor says, also where a person
 * scores: nobody has to grade an empty page. `answer` is undefined when nothing is stored.
 */
export function scoreQuestion(question: Question, answer: AnswerContent | undefined): Grade {
  if (answer === undefined || isUnanswered(answer)) return gradeOf(question, NOTHING);
  if (isScoredByHand(question)) return PENDING;
  const ruleMax = question.scoringRule.maxScore ?? question.score;
  return gradeOf(question, shareOf(question, ruleMax, answer));
}

/** The grade of a score given by hand, which lies on the question's own scale. */
export function gradeByHand(question: Question, score: number): { isCorrect: boolean; score: number } {
  return { isCorrect: score >= question.score, score: roundScore(decimal(score)) };
}

/** An empty selection, nothing but blank judgements, or white space only. */
function isUnanswered(answer: AnswerContent): boolean {
  if (answer.selected !== undefined) return answer.selected.length === 0;
  if (answer.statements !== undefined) return answer.statements.every((statement) => statement.value === null);
  if (answer.text !== undefined) return isBlank(answer.text);
  return true;
}

function shareOf(question: Question, ruleMax: number, answer: AnswerContent): Share {
  switch (question.type) {
    case 'SINGLE_CHOICE':
    case 'MULTIPLE_CHOICE':
      return choiceShare(question, ruleMax, answer.selected ?? []);
    case 'TRUE_FALSE_GROUP':
      return statementsShare(question, ruleMax, answer.statements ?? []);
    case 'SHORT_TEXT':
    case 'NUMERIC':
      return textShare(question, answer.text ?? '');
    case 'ESSAY':
      return NOTHING;
  }
}

function gradeOf(question: Question, earned: Share): Grade {
  return { isCorrect: isFull(earned), score: roundScore(pointsOf(earned, question.score)) };
}
