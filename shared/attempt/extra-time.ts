import { LAST_INSTANT, MINUTE, SECOND } from '#shared/kernel/time.ts';
import { type Attempt, type AttemptEvent, roundOf } from './attempt.ts';
import { attemptEvent } from './events.ts';
import { isExaminer } from './visibility.ts';

/** The caller of an act on attempts: an admin, or a teacher of the copied scope. */
export interface Examiner {
  id: string;
  role: 'TEACHER' | 'ADMIN';
}

/** Minutes that an examiner has given to students of an exam. A grant is an act, and has its id. */
export interface TimeGrant {
  _id: string;
  minutes: number;
  by: Examiner;
  reason: string;
  at: Date;
}

/** Time in which a start is decided and stored. A grant of this time may have missed the attempt. */
const START_MS = 15 * SECOND;

/** Returns a deadline that is `minutes` later, within the dates that ISO 8601 writes without a sign. null has no end to move. */
export function laterDeadline(deadlineAt: Date | null, minutes: number): Date | null {
  return deadlineAt === null ? null : new Date(Math.min(deadlineAt.getTime() + minutes * MINUTE, LAST_INSTANT));
}

/** Returns the grants that an attempt of this scope takes: those of its examiners. */
export function grantsOf<Grant extends Pick<TimeGrant, 'by'>>(
  attempt: Pick<Attempt, 'scope'>,
  grants: readonly Grant[],
): Grant[] {
  return grants.filter(({ by }) => isExaminer(attempt, by));
}

/** Returns the metadata of a TIME_EXTENDED event. `by` and `reason` are for examiners alone. */
export function timeMetadata({ _id: actId, minutes, by, reason }: TimeGrant) {
  return { actId, minutes, by: by.id, reason };
}

/**
 * Returns a new attempt with the time that its student was given before the start, past close and due time. An attempt without a deadline
 * stays without one.
 */
export function withGrantedTime(attempt: Attempt, granted: readonly TimeGrant[]): Attempt {
  const grants = grantsOf(attempt, granted);
  if (grants.length === 0 || attempt.deadlineAt === null) return attempt;
  const minutes = grants.reduce((sum, grant) => sum + grant.minutes, 0);
  const events = grants.map(
    (grant, index): AttemptEvent =>
      attemptEvent(attempt.eventSeq + 1 + index, 'TIME_EXTENDED', timeMetadata(grant), attempt.startedAt),
  );
  return {
    ...attempt,
    deadlineAt: laterDeadline(attempt.deadlineAt, minutes),
    extraMinutes: minutes,
    extraTime: grants.map(({ _id }) => _id),
    events: [...attempt.events, ...events],
    eventSeq: attempt.eventSeq + events.length,
  };
}

/**
 * Returns the grants before `until` that an open attempt lacks; by default those that are as old as its start. The walk of a later grant finds
 * the attempt, and counts it.
 */
export function missedGrants(
  attempt: Pick<Attempt, 'scope' | 'status' | 'startedAt' | 'deadlineAt' | 'extraTime' | 'round'>,
  granted: readonly TimeGrant[],
  until = attempt.startedAt.getTime() + START_MS,
): TimeGrant[] {
  // The deadline of a later round is that of its reopening.
  if (attempt.status !== 'IN_PROGRESS' || attempt.deadlineAt === null || roundOf(attempt) > 1) return [];
  return grantsOf(attempt, granted).filter(
    ({ _id, at }) => at.getTime() < until && attempt.extraTime?.includes(_id) !== true,
  );
}
