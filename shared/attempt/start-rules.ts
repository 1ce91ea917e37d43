import type { Rejection } from '#shared/kernel/errors.ts';
import { instantOf, parseInstant } from '#shared/kernel/time.ts';
import type { Attempt, CourseContext } from './attempt.ts';
import type { CourseContextInput, StartAccess, StartBody, StartExam, StartLink } from './start-body.ts';

/** The rules of a start, in the order in which a start applies them. */

/** The only service that may send and validate a course context. */
export const COURSE_SERVICE = 'course-service';

/**
 * Checks rules 2 and 12: the body must match the path, the student and the course service's marker header. They run before
 * the replay of a key, because a request about another student must not learn whether a key is known.
 */
export function bindStart(
  request: { examId: string; studentId: string; courseMarker: string | null },
  body: Pick<StartBody, 'exam' | 'courseAttemptContext'>,
): { courseContext: CourseContext | null } | Rejection {
  if (body.exam.id !== request.examId) return { rejected: 'EXAM_ID_MISMATCH' };
  const input = body.courseAttemptContext ?? null;
  if (input === null) return { courseContext: null };
  if (request.courseMarker !== COURSE_SERVICE) return { rejected: 'COURSE_CONTEXT_UNTRUSTED' };
  const courseContext = readCourseContext(input);
  const matches =
    courseContext !== null &&
    (input.examId == null || input.examId === request.examId) &&
    courseContext.studentId === request.studentId &&
    courseContext.organizationId === (body.exam.organizationId ?? null);
  return matches ? { courseContext } : { rejected: 'COURSE_CONTEXT_INVALID' };
}

/** Returns the course context, or null if a stored field is missing or course-service is not the validator. */
function readCourseContext(input: CourseContextInput): CourseContext | null {
  const { courseId, courseQuizReferenceId, lessonId, studentId, organizationId, validatedBy, validatedAt } = input;
  if (!isName(courseId) || !isName(courseQuizReferenceId) || !isName(lessonId)) return null;
  if (!isName(studentId) || !isName(organizationId)) return null;
  if (validatedBy !== COURSE_SERVICE || typeof validatedAt !== 'string') return null;
  const instant = parseInstant(validatedAt);
  if (instant === null) return null;
  return { courseId, courseQuizReferenceId, lessonId, studentId, organizationId, validatedBy, validatedAt: instant };
}

function isName(value: unknown): value is string {
  return typeof value === 'string' && value.trim() !== '';
}

/** Returns the link of a link start, or null if the link is missing, inactive or expired. */
function activeLink(access: StartAccess, now: Date): StartLink | null {
  const link = access.link ?? null;
  if (link === null || !link.active) return null;
  const expiresAt = instantOf(link.expiresAt);
  return expiresAt !== null && expiresAt.getTime() <= now.getTime() ? null : link;
}

/** The decision of rules 4–8 and 10, with the data for rule 9 and the deadline. */
export interface StartPlan {
  kind: 'link' | 'assignment';
  link: { id: string; mode: StartLink['mode'] } | null;
  /** Maximum of submitted and graded attempts within `limitScope`; null means unlimited. */
  limit: number | null;
  /** `exam` counts the student's attempts at the exam; `link` counts the student's attempts on the link. */
  limitScope: 'exam' | 'link';
  /** Maximum of distinct students of a GUEST_ALLOWED link; null means that seats are not counted. */
  seatLimit: number | null;
  /** Due time of an assignment start; null for a link start. */
  dueAt: Date | null;
}

/**
 * Applies rules 4–8 and 10 in order and returns how the student may start the exam now. They bind every start except a replay,
 * even if the student has an open attempt. Reading an open attempt needs no start.
 */
export function planStart(body: Pick<StartBody, 'exam' | 'access'>, now: Date): StartPlan | Rejection {
  const { exam, access } = body;
  if (exam.status !== 'PUBLISHED') return { rejected: 'EXAM_NOT_PUBLISHED' };
  if (exam.deliveryMode === 'OFFLINE') return { rejected: 'EXAM_OFFLINE' };
  const openTime = instantOf(exam.openTime);
  if (openTime !== null && now.getTime() < openTime.getTime()) return { rejected: 'EXAM_NOT_OPEN' };
  const closeTime = instantOf(exam.closeTime);
  if (closeTime !== null && now.getTime() >= closeTime.getTime()) return { rejected: 'EXAM_CLOSED' };
  if (exam.requiresAccessPassword === true && access.passwordVerified !== true) {
    return { rejected: 'EXAM_PASSWORD_REQUIRED' };
  }
  const link = activeLink(access, now);
  if (link !== null) return linkPlan(exam, access, link);
  if (access.assigned === true) {
    const limit = smallerLimit(exam, access);
    const dueAt = instantOf(access.assignmentDueAt);
    if (dueAt !== null && now.getTime() >= dueAt.getTime()) return { rejected: 'ASSIGNMENT_OVERDUE' };
    return { kind: 'assignment', link: null, limit, limitScope: 'exam', seatLimit: null, dueAt };
  }
  return { rejected: access.link == null ? 'EXAM_ACCESS_DENIED' : 'ACCESS_LINK_EXPIRED' };
}

function linkPlan(exam: StartExam, access: StartAccess, link: StartLink): StartPlan {
  const guests = link.mode === 'GUEST_ALLOWED';
  return {
    kind: 'link',
    link: { id: link.id, mode: link.mode },
    limit: smallerLimit(exam, access),
    limitScope: guests ? 'exam' : 'link',
    seatLimit: guests ? (link.studentLimit ?? null) : null,
    dueAt: null,
  };
}

function smallerLimit(exam: StartExam, access: StartAccess): number | null {
  const limits = [exam.maxAttempts, access.attemptLimit].filter((limit) => limit != null);
  return limits.length === 0 ? null : Math.min(...limits);
}

/** Counts for rule 9, read inside the transaction that inserts the attempt. */
interface StartCounts {
  /** Submitted and graded attempts within the plan's `limitScope`. */
  attempts: number;
  /** Taken seats of the link. */
  seats: number;
  /** True if the student has one of these seats. */
  hasSeat: boolean;
}

/**
 * Returns why a start may not have the open attempt of its student, or null. The caller then stores the new key as an alias of that
 * attempt, so that a retry of this request cannot start a second one. A start through a link other than the attempt's own requests a new
 * attempt and is refused.
 */
export function refuseOpenAttempt(
  open: Pick<Attempt, '_id' | 'accessLinkId'>,
  plan: Pick<StartPlan, 'link'>,
): Rejection | null {
  if (plan.link === null || plan.link.id === open.accessLinkId) return null;
  return { rejected: 'ATTEMPT_ALREADY_OPEN', data: { attemptId: open._id } };
}

/** Applies rule 9. Returns why the attempt limit or the seat limit refuses the start, or null. */
export function admitStart(plan: StartPlan, counts: StartCounts): Rejection | null {
  if (plan.limit !== null && counts.attempts >= plan.limit) return { rejected: 'ATTEMPT_LIMIT_REACHED' };
  if (plan.seatLimit !== null && !counts.hasSeat && counts.seats >= plan.seatLimit) {
    return { rejected: 'ACCESS_LINK_FULL' };
  }
  return null;
}

/**
 * Returns a free seat number that keeps a link within `limit` students, or null if the link is full. `taken` are the seat
 * numbers in use. `unnumbered` counts students who started while the link had no limit. `random` is in [0, 1).
 *
 * A seat is drawn only below a bound L with L + (students seated elsewhere) ≤ limit. Seat numbers are unique, so concurrent
 * starts with outdated reads can never seat more than `limit` students, even after the limit was lowered.
 */
export function freeSeat(
  { taken, unnumbered, limit }: { taken: readonly number[]; unnumbered: number; limit: number },
  random: number,
): number | null {
  const ascending = [...taken].sort((a, b) => a - b);
  let below = ascending.length;
  let bound = limit - unnumbered;
  // Each student seated at or above the bound uses one place below it, which lowers the bound.
  while (below > 0 && (ascending[below - 1] ?? 0) >= bound) {
    below -= 1;
    bound -= 1;
  }
  const free = bound - below;
  if (free <= 0) return null;
  let seat = Math.floor(random * free);
  for (let n = 0; n < below && (ascending[n] ?? 0) <= seat; n++) seat += 1;
  return seat;
}
