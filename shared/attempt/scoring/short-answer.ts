import type { Question } from '#shared/attempt/question.ts';
import { type Decimal, decimal } from '#shared/kernel/decimal.ts';
import { FULL, NOTHING, type Share } from './share.ts';

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

/**
 * NUMERIC: `|x − key| ≤ tolerance` for any of the key's numbers, inclusive and in exact decimals. A number's own
 * tolerance wins over the rule's, none is zero; RELATIVE is a share of |key|. Under EXACT every tolerance is zero.
 */
function matchesNumber({ answerKey, scoringRule }: Question, given: Decimal): boolean {
  return (answerKey.numericAnswers ?? []).some((answer) => {
    const key = decimal(answer.value);
    const distance = given.minus(key).absoluteValue();
    if (scoringRule.mode === 'EXACT') return distance.isZero();
    const tolerance = decimal(answer.tolerance ?? scoringRule.tolerance ?? 0);
    const allowed = scoringRule.toleranceType === 'RELATIVE' ? tolerance.times(key.absoluteValue()) : tolerance;
    return distance.lessThanOrEqualTo(allowed);
  });
}

/** Sign (U+2212 too), digits with `.` or `,` as the decimal mark on either side of them, exponent. */
const NUMBER = /^[+\-\u2212]?(?:[0-9]+(?:[.,][0-9]*)?|[.,][0-9]+)(?:[eE]([+\-\u2212]?[0-9]+))?$/u;

const MAX_NUMBER_CHARACTERS = 400;
const MAX_EXPONENT = 400;

/**
 * A number as a student types it, exactly; null when the text is none. White space around it does not count, not
 * even towards the 400 characters. No thousands marks: `1,234` is one and a bit, `1.234,5` is no number.
 * The bounds come first and the pattern cannot backtrack, so that no text costs more than its length.
 */
export function parseNumber(text: string): Decimal | null {
  const trimmed = trimWhiteSpace(text);
  if (trimmed.length > MAX_NUMBER_CHARACTERS) return null;
  const match = NUMBER.exec(trimmed);
  if (match === null) return null;
  const plain = trimmed.replaceAll('\u2212', '-').replace(',', '.');
  const exponent = match[1] === undefined ? 0 : Number(match[1].replace('\u2212', '-'));
  if (Math.abs(exponent) > MAX_EXPONENT) return null;
  return decimal(plain);
}

const WHITE_SPACE = /^\p{White_Space}$/u;
const WHITE_SPACE_RUN = /\p{White_Space}+/gu;

/**
 * Strips Unicode white space from both ends. By hand, because a regular expression anchored at the end rescans
 * every inner run: 100,000 spaces before a letter would hold the worker for seconds.
 */
export function trimWhiteSpace(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && WHITE_SPACE.test(text.charAt(start))) start += 1;
  while (end > start && WHITE_SPACE.test(text.charAt(end - 1))) end -= 1;
  return text.slice(start, end);
}

/** Empty or white space only. */
export function isBlank(text: string): boolean {
  return trimWhiteSpace(text) === '';
}

/**
 * The form in which short texts are compared: NFC, white space trimmed and inner runs folded to one space, and,
 * unless case counts, full Unicode case folding. Accents count. Folding is idempotent.
 */
export function foldText(text: string, caseSensitive: boolean): string {
  const spaced = trimWhiteSpace(text.normalize('NFC')).replace(WHITE_SPACE_RUN, ' ');
  // Folding can take a letter and its accent apart (U+0390), so that NFC has to come again.
  return caseSensitive ? spaced : foldCase(spaced).normalize('NFC');
}

/**
 * Full Unicode case folding (CaseFolding.txt, statuses C and F) from the mappings JavaScript has. Lower, upper,
 * lower reaches the same classes: the first lower turns U+1E9E into ß, upper makes that SS, and both small sigmas
 * meet in Σ. One repair: the dotless ı folds to itself although its upper case is I. Only the classes of equal
 * texts are promised, not which letter stands for them (Cherokee folds to small letters here, to capitals in the
 * table, and a final sigma stays one).
 */
function foldCase(text: string): string {
  return text
    .split('ı')
    .map((part) => part.toLowerCase().toUpperCase().toLowerCase())
    .join('ı');
}
