import type { Question } from '#shared/attempt/question.ts';
import { foldText } from './fold-text.ts';
import { matchesNumber } from './numeric.ts';
import { parseNumber } from './parse-number.ts';
import { FULL, NOTHING, type Share } from './points.ts';

/**
 * SHORT_TEXT and NUMERIC questions under EXACT, SHORT_TEXT or NUMERIC: all or nothing. SHORT_TEXT reads the
 * accepted texts and, where the key has numbers and the answer is one, those too; EXACT reads the part of the key
 * that fits the question's type.
 */
export function textShare(question: Question, text: string): Share {
  const { mode } = question.scoringRule;
  const readsTexts = mode === 'SHORT_TEXT' || (mode === 'EXACT' && question.type === 'SHORT_TEXT');
  const readsNumbers = mode !== 'EXACT' || question.type === 'NUMERIC';
  const isRight = (readsTexts && equalsAccepted(question, text)) || (readsNumbers && equalsNumber(question, text));
  return isRight ? FULL : NOTHING;
}

function equalsAccepted({ answerKey, scoringRule }: Question, text: string): boolean {
  const caseSensitive = scoringRule.caseSensitive ?? false;
  const given = foldText(text, caseSensitive);
  return (answerKey.acceptedTexts ?? []).some((accepted) => foldText(accepted, caseSensitive) === given);
}

function equalsNumber(question: Question, text: string): boolean {
  const given = parseNumber(text);
  return given !== null && matchesNumber(question, given);
}
