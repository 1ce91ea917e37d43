import { Decimal as LibraryDecimal } from 'decimal.js';

/**
 * Constructor of exact decimals. It reads a JSON number as the decimal that a person wrote, not as the nearest binary fraction.
 * Three times 1.3 is therefore 3.9, and a tolerance of 0.1 around 0.3 includes 0.2.
 *
 * decimal.js stores the precision in its constructor. The clone protects ours from other users of the library in this process.
 *
 * With 2,600 significant digits, no sum or difference of accepted inputs is rounded. A typed number spans 10^-800 to 10^800,
 * a product of two JSON numbers 10^-648 to 10^617. A typed number of at most 400 digits times a JSON number has about 420 digits.
 */
const Exact = LibraryDecimal.clone({
  precision: 2_600,
  rounding: LibraryDecimal.ROUND_HALF_UP,
  toExpNeg: -9e15,
  toExpPos: 9e15,
  defaults: true,
});

export type Decimal = LibraryDecimal;

/** Returns the exact decimal of a finite JSON number or of a decimal text (`-12.5e3`). Throws on any other value. */
export function decimal(value: number | string | Decimal): Decimal {
  const exact = new Exact(value);
  if (!exact.isFinite()) throw new RangeError('not a finite decimal');
  return exact;
}

/** Number of decimal places of a question's score. */
const SCORE_PLACES = 6;

/**
 * Rounds to the scale of scores: six decimal places. A tie rounds to the larger magnitude: `0.0000005` becomes `0.000001`,
 * `-0.0000005` becomes `-0.000001`. Never returns negative zero: JSON writes it as 0, but `Object.is` still distinguishes it.
 */
export function roundScore(value: Decimal): number {
  const rounded = value.toDecimalPlaces(SCORE_PLACES, LibraryDecimal.ROUND_HALF_UP).toNumber();
  return rounded === 0 ? 0 : rounded;
}

/**
 * Returns the points of a grade that a person or a model made out of `full`: rounded to six places, or `full` itself if both are equal there.
 * Such a grade is often a sum of binary fractions, and 9.999999 for each part of a full 10 would be no full mark.
 */
export function markByHand(score: number, full: number): number {
  const rounded = roundScore(decimal(score));
  // Nothing for what is worth less than the sixth place is nothing, although both round to 0.
  return rounded === roundScore(decimal(full)) && score > 0 ? full : rounded;
}

/** Returns the sum of JSON numbers. Adds them as exact decimals and converts to a number once, at the end. */
export function sumExactly(values: Iterable<number>): number {
  let sum = decimal(0);
  for (const value of values) sum = sum.plus(value);
  return toNumber(sum);
}

/** Returns `part / whole × 100` with the full precision of a JSON number, or null if `whole` is 0. */
export function percentOf(part: number, whole: number): number | null {
  if (whole === 0) return null;
  return toNumber(decimal(part).times(100).dividedBy(whole));
}

function toNumber(value: Decimal): number {
  const number = value.toNumber();
  return number === 0 ? 0 : number;
}
