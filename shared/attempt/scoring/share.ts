import type { ScoringRule } from '#shared/attempt/question.ts';
import { type Decimal, decimal } from '#shared/kernel/decimal.ts';

/**
 * The earned part of the full mark, as an exact fraction. It stays a fraction until the score is rounded: `M · right / key`
 * has no finite decimal for a key of three, and full marks are decided before rounding.
 */
export interface Share {
  numerator: Decimal;
  /** Above zero. */
  denominator: Decimal;
}

export const FULL: Share = { numerator: decimal(1), denominator: decimal(1) };
export const NOTHING: Share = { numerator: decimal(0), denominator: decimal(1) };

/** Returns true if the share is at least 1. No rule yields more than 1. */
export function isFull({ numerator, denominator }: Share): boolean {
  return numerator.greaterThanOrEqualTo(denominator);
}

/** Returns the points of a share on a scale whose full mark is `full`. Only the division itself rounds. */
export function pointsOf({ numerator, denominator }: Share, full: number): Decimal {
  return numerator.times(full).dividedBy(denominator);
}

/**
 * PARTIAL: returns `clamp(M · right / key − incorrectPenalty · wrong, minScore, M)` as a share of M. M is the rule's full
 * mark; penalty and floor are points on its scale. The denominator is `M · key`, so that no division precedes the rounding of
 * the score. Without a penalty, selecting every option earns full marks; this is intended.
 */
export function partialShare(
  rule: ScoringRule,
  ruleMax: number,
  { right, wrong, key }: { right: number; wrong: number; key: number },
): Share {
  const denominator = decimal(ruleMax).times(key);
  const earned = decimal(ruleMax).times(right);
  const lost = decimal(rule.incorrectPenalty ?? 0)
    .times(wrong)
    .times(key);
  const floor = decimal(rule.minScore ?? 0).times(key);
  let numerator = earned.minus(lost);
  if (numerator.lessThan(floor)) numerator = floor;
  if (numerator.greaterThan(denominator)) numerator = denominator;
  return share(numerator, denominator);
}

/** The national examination's ladder: shares for 0, 1, 2, 3 and 4 correct statements of four. */
const FOUR_STATEMENTS = [0, 0.1, 0.25, 0.5, 1] as const;

/**
 * THPT_TRUE_FALSE_LADDER and TRUE_FALSE_GROUP: returns the step of the rule's own ladder, else of the national ladder if there
 * are four statements, else an equal share per statement. Penalty and floor are ignored; a blank statement is not correct.
 */
export function ladderShare(rule: ScoringRule, { right, statements }: { right: number; statements: number }): Share {
  const steps = rule.ladder ?? (statements === 4 ? FOUR_STATEMENTS : null);
  if (steps === null) return share(right, statements);
  const step = steps[right];
  if (step === undefined) throw new Error(`the ladder has no step for ${right} of ${statements}`);
  return share(step, 1);
}

function share(numerator: Decimal | number, denominator: Decimal | number): Share {
  return { numerator: decimal(numerator), denominator: decimal(denominator) };
}
