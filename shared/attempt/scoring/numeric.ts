import type { Question } from '#shared/attempt/question.ts';
import { type Decimal, decimal } from '#shared/kernel/decimal.ts';

/**
 * NUMERIC: `|x − key| ≤ tolerance` for any of the key's numbers, inclusive and in exact decimals. A number's own
 * tolerance wins over the rule's, none is zero; RELATIVE is a share of |key|. Under EXACT every tolerance is zero.
 */
export function matchesNumber({ answerKey, scoringRule }: Question, given: Decimal): boolean {
  return (answerKey.numericAnswers ?? []).some((answer) => {
    const key = decimal(answer.value);
    const distance = given.minus(key).absoluteValue();
    if (scoringRule.mode === 'EXACT') return distance.isZero();
    const tolerance = decimal(answer.tolerance ?? scoringRule.tolerance ?? 0);
    const allowed = scoringRule.toleranceType === 'RELATIVE' ? tolerance.times(key.absoluteValue()) : tolerance;
    return distance.lessThanOrEqualTo(allowed);
  });
}
