import { type Decimal, decimal } from '#shared/kernel/decimal.ts';
import { trimWhiteSpace } from './fold-text.ts';

/** Sign (U+2212 too), digits with `.` or `,` as the decimal mark on either side of them, exponent. */
const NUMBER = /^[+\-\u2212]?(?:[0-9]+(?:[.,][0-9]*)?|[.,][0-9]+)(?:[eE]([+\-\u2212]?[0-9]+))?$/u;

const MAX_CHARACTERS = 400;
const MAX_EXPONENT = 400;

/**
 * A number as a student types it, exactly; null when the text is none. White space around it does not count, not
 * even towards the 400 characters. No thousands marks: `1,234` is one and a bit, `1.234,5` is no number.
 * The bounds come first and the pattern cannot backtrack, so that no text costs more than its length.
 */
export function parseNumber(text: string): Decimal | null {
  const trimmed = trimWhiteSpace(text);
  if (trimmed.length > MAX_CHARACTERS) return null;
  const match = NUMBER.exec(trimmed);
  if (match === null) return null;
  const plain = trimmed.replaceAll('\u2212', '-').replace(',', '.');
  const exponent = match[1] === undefined ? 0 : Number(match[1].replace('\u2212', '-'));
  if (Math.abs(exponent) > MAX_EXPONENT) return null;
  return decimal(plain);
}
