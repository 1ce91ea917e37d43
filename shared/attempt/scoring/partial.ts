import type { ScoringRule } from '#shared/attempt/question.ts';
import { decimal } from '#shared/kernel/decimal.ts';
import { type Share, share } from './points.ts';

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
