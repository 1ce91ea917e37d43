import { type Decimal, decimal } from '#shared/kernel/decimal.ts';

/**
 * What an answer earned, as an exact fraction of the full mark. Kept as a fraction until the very end, because
 * `M · right / key` has no finite decimal for a key of three, and full marks are judged before any rounding.
 */
export interface Share {
  numerator: Decimal;
  /** Above zero. */
  denominator: Decimal;
}

export const FULL: Share = { numerator: decimal(1), denominator: decimal(1) };
export const NOTHING: Share = { numerator: decimal(0), denominator: decimal(1) };

export function share(numerator: Decimal | number, denominator: Decimal | number): Share {
  return { numerator: decimal(numerator), denominator: decimal(denominator) };
}

/** Full marks, or more (which no rule gives). */
export function isFull({ numerator, denominator }: Share): boolean {
  return numerator.greaterThanOrEqualTo(denominator);
}

/** The points of a share on a scale whose full mark is `full`, unrounded but for the division itself. */
export function pointsOf({ numerator, denominator }: Share, full: number): Decimal {
  return numerator.times(full).dividedBy(denominator);
}
