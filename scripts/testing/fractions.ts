/** An exact fraction, whose denominator is above zero: the reference for what the product computes with a library of decimals. */
export interface Fraction {
  n: bigint;
  d: bigint;
}

const DECIMAL = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i;
/** Decimal places of the longest number that is a double or halfway between two. */
const PLACES = 1_100n;

/** Returns the decimal that a number is written as, or a text is. */
export function fractionOf(value: number | string): Fraction {
  const match = DECIMAL.exec(String(value));
  if (match === null) throw new RangeError(`${value} is no decimal`);
  const [, sign, whole, part = '', exponent = '0'] = match;
  const digits = BigInt(`${whole}${part}`) * (sign === '' ? 1n : -1n);
  const places = part.length - Number(exponent);
  return places < 0 ? { n: digits * 10n ** BigInt(-places), d: 1n } : { n: digits, d: 10n ** BigInt(places) };
}

export const plus = (one: Fraction, other: Fraction): Fraction =>
  one.d === other.d ? { n: one.n + other.n, d: one.d } : { n: one.n * other.d + other.n * one.d, d: one.d * other.d };

export const times = (one: Fraction, other: Fraction): Fraction => ({ n: one.n * other.n, d: one.d * other.d });

/** Returns a fraction divided by one above zero. */
export const over = (one: Fraction, other: Fraction): Fraction => ({ n: one.n * other.d, d: one.d * other.n });

export const minus = (one: Fraction, other: Fraction): Fraction => plus(one, { n: -other.n, d: other.d });

export const sizeOf = ({ n, d }: Fraction): Fraction => ({ n: n < 0n ? -n : n, d });

export const isAtMost = (one: Fraction, other: Fraction): boolean => one.n * other.d <= other.n * one.d;

export const larger = (one: Fraction, other: Fraction): Fraction => (isAtMost(one, other) ? other : one);

export const smaller = (one: Fraction, other: Fraction): Fraction => (isAtMost(one, other) ? one : other);

/** Returns a fraction rounded to decimal places, which may be negative. A tie goes to the larger magnitude. */
export function roundedTo(places: number, { n, d }: Fraction): Fraction {
  const [up, down] = places < 0 ? [1n, 10n ** BigInt(-places)] : [10n ** BigInt(places), 1n];
  const size = ((n < 0n ? -n : n) * up * 2n + d * down) / (d * down * 2n);
  return { n: (n < 0n ? -size : size) * down, d: up };
}

/** Returns the nearest double, never the negative zero. */
export function numberOf({ n, d }: Fraction): number {
  const size = (n < 0n ? -n : n) * 10n ** PLACES;
  // A last digit for the remainder decides what would otherwise be a tie.
  const text = `${size / d}${size % d === 0n ? 0 : 1}e-${PLACES + 1n}`;
  return Number(n < 0n ? `-${text}` : text) || 0;
}
