import type { ScoringRule } from '#shared/attempt/question.ts';
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

/** Full marks, or more (which no rule gives). */
export function isFull({ numerator, denominator }: Share): boolean {
  return numerator.greaterThanOrEqualTo(denominator);
}

/** The points of a share on a scale whose full mark is `full`, unrounded but for the division itself. */
export function pointsOf({ numerator, denominator }: Share, full: number): Decimal {
  return numerator.times(full).dividedBy(denominator);
}

/**
 * PARTIAL: `clamp(M · right / key − incorrectPenalty · wrong, minScore, M)` as a share of M, where M is the
 * rule's full mark and penalty and floor are points on its scale. Multiplied out by `M · key`, so that nothing is
 * divided before the score is rounded. Without a penalty, ticking everything earns full marks: so it was decided.
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

/** The national examination's ladder: what 0, 1, 2, 3 or 4 right judgements of four are worth. */
const FOUR_STATEMENTS = [0, 0.1, 0.25, 0.5, 1] as const;

/**
 * THPT_TRUE_FALSE_LADDER and TRUE_FALSE_GROUP: the rule's own ladder where it has one, the national one for four
 * statements, else an equal share each. Penalty and floor do not count here; a blank judgement is not right.
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
