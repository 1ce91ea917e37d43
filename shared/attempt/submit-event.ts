import { type Attempt, type AttemptEvent, remainingSeconds } from './attempt.ts';
import type { GradingBody } from './commands.ts';
import { submitEventType, submitMetadata } from './events.ts';

/**
 * Returns the event of a submit. It is written with the grade, or by a reopening that comes first: then `totalScore` is null. The body of the
 * grading names the cause.
 */
export function submitEvent(
  { submittedBy, submittedAt, deadlineAt }: Pick<Attempt, 'submittedBy' | 'submittedAt' | 'deadlineAt'>,
  totalScore: number | null,
  { client, actId, by, statedReason }: GradingBody,
  at: Date,
): Omit<AttemptEvent, 'seq'> {
  const source = submittedBy ?? 'STUDENT';
  const act = actId === undefined || by === undefined ? undefined : { actId, by, reason: statedReason };
  const leftSeconds = remainingSeconds(deadlineAt, submittedAt ?? at);
  const metadata = submitMetadata({ source, totalScore, remainingSeconds: leftSeconds, client, act });
  return { type: submitEventType(source), metadata: JSON.stringify(metadata), createdAt: at };
}
