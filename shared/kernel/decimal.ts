import { Decimal as LibraryDecimal } from 'decimal.js';

/**
 * Exact decimals. A JSON number is taken as the decimal a human wrote (0.1 is one tenth), not as the nearest
 * binary fraction, so that three times 1.3 is 3.9 and a tolerance of 0.1 around 0.3 includes 0.2.
 *
 * The constructor is a clone, because decimal.js keeps precision in its constructor and a second user of the
 * library in this process must not change ours. 2,600 significant digits hold every sum and difference that the
 * accepted inputs can form without rounding: a typed number spans 10^-800 to 10^800, and a product of two JSON
 * numbers 10^-648 to 10^617.
 */
const Exact = LibraryDecimal.clone({
  precision: 2_600,
  rounding: LibraryDecimal.ROUND_HALF_UP,
  toExpNeg: -9e15,
  toExpPos: 9e15,
  defaults: true,
});

export type Decimal = LibraryDecimal;

/** The exact decimal of a finite JSON number or of a plain decimal text (`-12.5e3`). Throws on anything else. */
export function decimal(value: number | string | Decimal): Decimal {
  const exact = new Exact(value);
  if (!exact.isFinite()) throw new RangeError('not a finite decimal');
  return exact;
}

/** How many decimal places a question's score keeps. */
const SCORE_PLACES = 6;

/**
 * The score scale: six places, a tie away from zero (`0.0000005` is `0.000001`, `-0.0000005` is `-0.000001`).
 * Never the negative zero, which JSON would lose and a comparison would keep.
 */
export function roundScore(value: Decimal): number {
  const rounded = value.toDecimalPlaces(SCORE_PLACES, LibraryDecimal.ROUND_HALF_UP).toNumber();
  return rounded === 0 ? 0 : rounded;
}

/** The sum of JSON numbers, added as decimals and turned back into a number once, at the end. */
export function sumExactly(values: Iterable<number>): number {
  let sum = decimal(0);
  for (const value of values) sum = sum.plus(value);
  return toNumber(sum);
}

/** `part / whole × 100`, unrounded but for the last digit of a JSON number; null when there is no whole. */
export function percentOf(part: number, whole: number): number | null {
  if (whole === 0) return null;
  return toNumber(decimal(part).times(100).dividedBy(whole));
}

function toNumber(value: Decimal): number {
  const number = value.toNumber();
  return number === 0 ? 0 : number;
}
