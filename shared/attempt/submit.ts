import type { Attempt, SubmitSource } from './attempt.ts';

export type SubmitFields = Pick<Attempt, 'status' | 'submittedAt' | 'submittedBy' | 'durationSeconds'>;

/**
 * What handing in sets. A student's submit counts at its own time, also after the deadline; a TIMEOUT at the
 * earlier of now and the deadline, so that a sweep minutes later does not lengthen the sitting.
 */
export function submitFields(
  attempt: Pick<Attempt, 'startedAt' | 'deadlineAt'>,
  source: SubmitSource,
  now: Date,
): SubmitFields {
  const late = source === 'TIMEOUT' && attempt.deadlineAt !== null && attempt.deadlineAt.getTime() < now.getTime();
  const submittedAt = late && attempt.deadlineAt !== null ? attempt.deadlineAt : now;
  // A clock that stepped back must not store a negative duration.
  const elapsed = Math.max(0, submittedAt.getTime() - attempt.startedAt.getTime());
  return { status: 'SUBMITTED', submittedAt, submittedBy: source, durationSeconds: Math.floor(elapsed / 1_000) };
}
