import { durationMs } from './limits.ts';

/**
 * When the attempt must be handed in: the earliest of what bounds it, null when nothing does. At that very instant
 * it is over. A due time binds assignment starts only, so a link start passes null for it.
 */
export function deadlineOf(bounds: {
  startedAt: Date;
  durationMinutes: number | null;
  closeTime: Date | null;
  assignmentDueAt: Date | null;
}): Date | null {
  const instants: number[] = [];
  if (bounds.durationMinutes !== null) {
    instants.push(Math.min(bounds.startedAt.getTime() + durationMs(bounds.durationMinutes), LAST_INSTANT));
  }
  if (bounds.closeTime !== null) instants.push(bounds.closeTime.getTime());
  if (bounds.assignmentDueAt !== null) instants.push(bounds.assignmentDueAt.getTime());
  return instants.length === 0 ? null : new Date(Math.min(...instants));
}

/** The end of the year 9999: a longer duration must not make a date that ISO 8601 writes with a sign. */
const LAST_INSTANT = Date.UTC(9999, 11, 31, 23, 59, 59, 999);

export function isOver(deadlineAt: Date | null, now: Date): boolean {
  return deadlineAt !== null && now.getTime() >= deadlineAt.getTime();
}

/** Whole seconds left at `now`, 0 when over, null without a deadline. */
export function remainingSeconds(deadlineAt: Date | null, now: Date): number | null {
  if (deadlineAt === null) return null;
  return Math.max(0, Math.floor((deadlineAt.getTime() - now.getTime()) / 1_000));
}
