import type { ScoringRule } from '#shared/attempt/question.ts';
import { type Share, share } from './points.ts';

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
