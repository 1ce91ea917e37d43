import type { Transitions } from '../kernel/transitions.ts';
import type { AttemptStatus } from './attempt.ts';

/**
 * The front door (and the overdue sweep) hands in, only the grading worker grades. A grade by hand changes scores
 * and totals of a GRADED attempt, never its status.
 */
export const ATTEMPT_TRANSITIONS: Transitions<AttemptStatus> = {
  IN_PROGRESS: ['SUBMITTED'],
  SUBMITTED: ['GRADED'],
  GRADED: [],
};
