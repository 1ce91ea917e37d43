/**
 * An exact fraction. Statistics are computed in fractions and rounded once, at the end. In binary numbers, a sum of squares loses its last
 * places, and a mean of exactly 2.0000005 may round either way.
 */
export interface Fraction {
  readonly top: bigint;
  /** Above 0. */
  readonly bottom: bigint;
}

/** Decimal places to which a fraction is rounded, as scores are. */
const PLACES = 6;
const SCALE = 10n ** BigInt(PLACES);

/** Returns `top / bottom`. Throws if `bottom` is 0. */
export function fraction(top: bigint, bottom: bigint): Fraction {
  if (bottom === 0n) throw new RangeError('a fraction of zero parts');
  return bottom < 0n ? { top: -top, bottom: -bottom } : { top, bottom };
}

/** Returns true if `one` is at least `other`. */
export function isAtLeast(one: Fraction, other: Fraction): boolean {
  return one.top * other.bottom >= other.top * one.bottom;
}

/** Rounds to six places. A tie rounds to the larger magnitude, as scores do. */
export function rounded({ top, bottom }: Fraction): number {
  const size = top < 0n ? -top : top;
  return signed((2n * size * SCALE + bottom) / (2n * bottom), top < 0n);
}

/** Rounds the square root of a fraction to six places; a negative sign of `sign` makes the result negative. */
export function roundedRoot({ top, bottom }: Fraction, sign = 1n): number {
  if (top < 0n) throw new RangeError('a square root of a negative fraction');
  // ⌊x + 1/2⌋ of x = √(top / bottom) · SCALE is ⌊(⌊2x⌋ + 1) / 2⌋.
  return signed((integerRoot((4n * top * SCALE * SCALE) / bottom) + 1n) / 2n, sign < 0n);
}

function signed(scaled: bigint, isNegative: boolean): number {
  const value = Number(scaled) / Number(SCALE);
  return isNegative && value !== 0 ? -value : value;
}

/** Returns ⌊√value⌋, by Newton's method from above. */
function integerRoot(value: bigint): bigint {
  if (value < 2n) return value;
  let root = 1n << BigInt((value.toString(2).length + 1) >> 1);
  for (;;) {
    const next = (root + value / root) >> 1n;
    if (next >= root) return root;
    root = next;
  }
}

/** Returns the number of decimal places of a number as JSON writes it: 1 of 0.5, 7 of 1e-7, 0 of 1e21. */
export function placesOf(value: number): number {
  const [digits = '', exponent = '0'] = String(value).split('e');
  const places = (digits.split('.')[1] ?? '').length - Number(exponent);
  return Math.max(0, places);
}

/** Returns the number in units of 10^-places, which must be at least `placesOf(value)`: 1.3 in two places is 130. */
export function unitsOf(value: number, places: number): bigint {
  const [digits = '', exponent = '0'] = String(value).split('e');
  const [whole = '', part = ''] = digits.split('.');
  return BigInt(whole + part) * 10n ** BigInt(places - part.length + Number(exponent));
}
