import { percentOf } from '#shared/kernel/decimal.ts';
import type { AttemptDetail } from './redact.ts';

/**
 * The body of a result read, made from the redacted detail and from nothing else, so that it cannot show what the
 * detail hides. scorePercent = totalScore / Σ question scores × 100, unrounded; null while there is no total to see.
 */
export function resultOf(detail: AttemptDetail): { attempt: AttemptDetail; scorePercent: number | null } {
  const scorePercent = detail.totalScore === null ? null : percentOf(detail.totalScore, detail.maxScore);
  return { attempt: detail, scorePercent };
}
