import { type Question, ruleTypeOf } from '#shared/attempt/question.ts';
import { type Decimal, decimal } from '#shared/kernel/decimal.ts';
import { hasMarkRun, withoutUnseen } from '#shared/kernel/text.ts';
import { FULL, NOTHING, partialShare, type Share } from './share.ts';
import { foldSqueezed, foldText, MAX_SHRINKAGE, squeezed, trimWhiteSpace } from './typed-text.ts';

/**
 * Scores a text as a whole: right or wrong. A numeric question compares the numbers of its key, a text question the accepted texts too.
 * EXACT is the mode of the type under another name, so that a tolerance that was sent counts under it as well. Only an unknown type can have
 * PARTIAL here; the text is then its only part, so that penalty and floor apply.
 */
export function textShare(question: Question, ruleMax: number, text: string): Share {
  const { mode } = question.scoringRule;
  const ofNumbers = mode === 'NUMERIC' || ruleTypeOf(question) === 'NUMERIC';
  // A text with a run of combining marks is wrong without being read: a student may store 4 MiB of them.
  const given = hasMarkRun(text) ? null : squeezed(text);
  const isRight =
    given !== null && ((!ofNumbers && equalsAccepted(question, given)) || equalsNumber(question, given, ofNumbers));
  if (mode !== 'PARTIAL') return isRight ? FULL : NOTHING;
  return partialShare(question.scoringRule, ruleMax, { right: isRight ? 1 : 0, wrong: isRight ? 0 : 1, key: 1 });
}

/** Returns true if a squeezed text folds to an accepted one. A text that is too long for that is wrong without being folded. */
function equalsAccepted(question: Question, given: string): boolean {
  const key = foldedKeyOf(question);
  if (given.length > MAX_SHRINKAGE * key.longest) return false;
  return key.texts.has(foldSqueezed(given, key.caseSensitive));
}

/** The accepted texts of a question in the form in which they are compared. */
interface FoldedKey {
  texts: ReadonlySet<string>;
  /** UTF-16 units of the longest text. */
  longest: number;
  caseSensitive: boolean;
}

/** Keys that are folded already. All attempts of a cached paper share its questions, so each key is folded once. */
const FOLDED_KEYS = new WeakMap<Question, FoldedKey>();

function foldedKeyOf(question: Question): FoldedKey {
  const known = FOLDED_KEYS.get(question);
  if (known !== undefined) return known;
  const { caseSensitive = false } = question.scoringRule;
  const texts = (question.answerKey.acceptedTexts ?? []).map((text) => foldText(text, caseSensitive));
  const key = {
    texts: new Set(texts),
    longest: texts.reduce((longest, { length }) => Math.max(longest, length), 0),
    caseSensitive,
  };
  FOLDED_KEYS.set(question, key);
  return key;
}

/** Significant digits that every JSON number returns as they were written. */
const SOUND_DIGITS = 15;
/** Share of a number by which binary arithmetic on it may be off. */
const BINARY_ERROR = decimal('1e-12');

/**
 * NUMERIC: returns true if `|x − key| ≤ tolerance` for any of the key's numbers, in exact decimals. A number's own tolerance takes precedence
 * over the rule's; the default is 0. A RELATIVE tolerance is a share of |key|.
 *
 * Importers compute keys and ranges in binary fractions: 0.1 + 0.2 is 0.30000000000000004, and the range 0.1 to 0.3 becomes 0.2 ±
 * 0.09999999999999999. A key therefore also counts as it reads at 15 digits, and a tolerance above 0 is a little wider.
 */
function equalsNumber(question: Question, text: string, ofNumbers: boolean): boolean {
  const given = parseNumber(text);
  if (given === null) return false;
  const { tolerance: ofRule = 0, toleranceType } = question.scoringRule;
  return numbersOf(question, ofNumbers).some(({ value, tolerance = ofRule }) =>
    readingsOf(value).some((key) => {
      const size = key.absoluteValue();
      const sent = toleranceType === 'RELATIVE' ? size.times(tolerance) : decimal(tolerance);
      const allowed = sent.isZero() ? sent : sent.plus(BINARY_ERROR.times(size.greaterThan(sent) ? size : sent));
      return given.minus(key).absoluteValue().lessThanOrEqualTo(allowed);
    }),
  );
}

function readingsOf(value: Decimal): Decimal[] {
  return value.precision() <= SOUND_DIGITS ? [value] : [value, value.toSignificantDigits(SOUND_DIGITS)];
}

/**
 * Returns the numbers of the key. In a question of texts with a tolerance, even 0, accepted texts that are numbers are included: an accepted
 * `0.5` then also accepts `0,50`.
 */
function numbersOf({ answerKey, scoringRule }: Question, ofNumbers: boolean): { value: Decimal; tolerance?: number }[] {
  const { acceptedTexts = [], numericAnswers = [] } = answerKey;
  const numbers = numericAnswers.map((answer) => ({ ...answer, value: decimal(answer.value) }));
  if (ofNumbers || scoringRule.tolerance === undefined) return numbers;
  const inTexts = acceptedTexts.flatMap((text) => parseNumber(text) ?? []);
  return [...numbers, ...inTexts.map((value) => ({ value }))];
}

/** The dashes and minus signs that a phone or a word processor types for `-`. */
const MINUS = /[\u2010-\u2013\u2212\uFE63\uFF0D]/g;
/** An optional sign, digits with an optional decimal mark (`.` or `,`) and an optional exponent. */
const NUMBER = /^[+-]?(?:[0-9]+(?:[.,][0-9]*)?|[.,][0-9]+)(?:[eE]([+-]?[0-9]+))?$/;

const MAX_NUMBER_CHARACTERS = 400;
const MAX_EXPONENT = 400;

/**
 * Returns the exact number that a student or an author typed, or null if the text is not a number. Characters that show nothing and
 * surrounding white space are ignored and do not count towards the 400 characters. Thousands marks are unsupported: `1,234` is
 * 1.234, `1.234,5` is invalid. The length is checked first and the pattern cannot backtrack, so that the cost is linear in the length.
 */
export function parseNumber(text: string): Decimal | null {
  const trimmed = trimWhiteSpace(withoutUnseen(text));
  if (trimmed.length > MAX_NUMBER_CHARACTERS) return null;
  const plain = trimmed.replace(MINUS, '-');
  const match = NUMBER.exec(plain);
  if (match === null || Math.abs(Number(match[1] ?? 0)) > MAX_EXPONENT) return null;
  return decimal(plain.replace(',', '.'));
}
