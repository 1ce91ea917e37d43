import type { Question } from '#shared/attempt/question.ts';
import { partialShare } from './partial.ts';
import { FULL, NOTHING, type Share } from './points.ts';

/** SINGLE_CHOICE and MULTIPLE_CHOICE under EXACT or PARTIAL. A selection counts once, however often it was sent. */
export function choiceShare(question: Question, ruleMax: number, selected: readonly string[]): Share {
  const key = new Set(question.answerKey.correctOptionIds ?? []);
  const chosen = new Set(selected);
  const right = chosen.intersection(key).size;
  const wrong = chosen.size - right;
  if (question.scoringRule.mode === 'PARTIAL') {
    return partialShare(question.scoringRule, ruleMax, { right, wrong, key: key.size });
  }
  return right === key.size && wrong === 0 ? FULL : NOTHING;
}
