import type { AnswerContent } from '#shared/attempt/attempt.ts';
import { isScoredByHand, type Question, ruleTypeOf } from '#shared/attempt/question.ts';
import { decimal, markByHand, roundScore } from '#shared/kernel/decimal.ts';
import { isBlank } from '#shared/kernel/text.ts';
import { FULL, isFull, ladderShare, NOTHING, partialShare, pointsOf, type Share } from './share.ts';
import { textShare } from './short-answer.ts';
import { isBlankEssay } from './typed-text.ts';

/**
 * A full mark is the score of the question itself, and `isCorrect`. Any other score is rounded to six places and never above that. Both are
 * null while a grade by hand is pending, and of a question that a correction has taken out.
 */
export type Grade = { isCorrect: boolean; score: number } | { isCorrect: null; score: null };

const NONE: Grade = { isCorrect: null, score: null };

/**
 * Grades one question from its copied snapshot. An unanswered question scores 0 regardless of `minScore`, even if it is scored
 * by hand, so that no teacher has to grade an empty page. `answer` is undefined if no answer is stored.
 */
export function scoreQuestion(question: Question, answer: AnswerContent | undefined): Grade {
  if (question.award === 'EXCLUDE') return NONE;
  if (question.award === 'FULL') return gradeOf(question, FULL);
  if (answer === undefined || isUnanswered(question, answer)) return gradeOf(question, NOTHING);
  if (isScoredByHand(question)) return NONE;
  // A practice question has 0 points, which cannot serve as a scale. A scale of 1 still yields the right `isCorrect`.
  const ruleMax = question.scoringRule.maxScore ?? (question.score || 1);
  return gradeOf(question, shareOf(question, ruleMax, answer));
}

/**
 * Returns true if a score by hand is from 0 to `max`, compared at six places. A rubric page adds its points in binary fractions, and sends
 * 0.30000000000000004 for three tenths.
 */
export function isInRange(score: number, max: number): boolean {
  if (!Number.isFinite(score) || !Number.isFinite(max)) return false;
  const rounded = roundScore(decimal(score));
  return rounded >= 0 && rounded <= roundScore(decimal(max));
}

/** Returns the grade of a score by hand, which is in range and on the question's own scale. */
export function gradeByHand(question: Question, score: number): { isCorrect: boolean; score: number } {
  const points = markByHand(score, question.score);
  return { isCorrect: points === question.score, score: points };
}

/** Returns true for an empty selection, statements without any value, or a text that shows nothing. */
export function isUnanswered(question: Question, answer: AnswerContent): boolean {
  if (answer.selected !== undefined) return answer.selected.length === 0;
  if (answer.statements !== undefined) return answer.statements.every((statement) => statement.value === null);
  if (answer.text !== undefined) return isScoredByHand(question) ? isBlankEssay(answer.text) : isBlank(answer.text);
  return true;
}

function shareOf(question: Question, ruleMax: number, answer: AnswerContent): Share {
  switch (ruleTypeOf(question)) {
    case 'SINGLE_CHOICE':
    case 'MULTIPLE_CHOICE':
      return choiceShare(question, ruleMax, answer.selected ?? []);
    case 'TRUE_FALSE_GROUP':
      return statementsShare(question, ruleMax, answer.statements ?? []);
    case 'SHORT_TEXT':
    case 'NUMERIC':
      return textShare(question, ruleMax, answer.text ?? '');
    case 'ESSAY':
      return NOTHING;
  }
}

/** Rounding a full mark would lose points: three times 3.333333 is less than a paper of three times 10/3. */
function gradeOf({ score }: Question, earned: Share): Grade {
  if (isFull(earned)) return { isCorrect: true, score };
  return { isCorrect: false, score: Math.min(roundScore(pointsOf(earned, score)), score) };
}

/** Returns the share of a choice under EXACT or PARTIAL. A repeated selection counts once. */
function choiceShare(question: Question, ruleMax: number, selected: readonly string[]): Share {
  const key = new Set(question.answerKey.correctOptionIds ?? []);
  const chosen = new Set(selected);
  const right = chosen.intersection(key).size;
  const wrong = chosen.size - right;
  if (question.scoringRule.mode === 'PARTIAL') {
    return partialShare(question.scoringRule, ruleMax, { right, wrong, key: key.size });
  }
  return right === key.size && wrong === 0 ? FULL : NOTHING;
}

/** Returns the share of a true/false group under each of its modes. A blank or omitted statement is neither right nor wrong. */
function statementsShare(
  question: Question,
  ruleMax: number,
  judgements: readonly { statementId: string; value: boolean | null }[],
): Share {
  const { answerKey, scoringRule } = question;
  const key = new Map((answerKey.statements ?? []).map(({ statementId, value }) => [statementId, value]));
  let right = 0;
  let wrong = 0;
  for (const { statementId, value } of judgements) {
    if (value === null) continue;
    if (key.get(statementId) === value) right += 1;
    else wrong += 1;
  }
  if (scoringRule.mode === 'EXACT') return right === key.size ? FULL : NOTHING;
  if (scoringRule.mode === 'PARTIAL') return partialShare(scoringRule, ruleMax, { right, wrong, key: key.size });
  return ladderShare(scoringRule, { right, statements: key.size });
}
