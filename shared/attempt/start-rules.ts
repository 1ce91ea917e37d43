import type { Rejection } from '#shared/kernel/errors.ts';
import { instantOf, parseInstant } from '#shared/kernel/time.ts';
import type { Attempt, CourseContext } from './attempt.ts';
import { MAX_START_KEY_ALIASES } from './limits.ts';
import type { CourseContextInput, StartAccess, StartBody, StartExam, StartLink } from './start-body.ts';

/** The rules of a start, in the order in which a start asks them. */

/** The only sender and the only validator of a course context. */
export const COURSE_SERVICE = 'course-service';

/**
 * Rules 2 and 12, which bind the body to the path, to the student and to the course service's marker header. They
 * run before the replay of a key: a body about someone else must not even learn that a key is known.
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
    input.examId === request.examId &&
    courseContext.studentId === request.studentId &&
    courseContext.organizationId === (body.exam.organizationId ?? null);
  return matches ? { courseContext } : { rejected: 'COURSE_CONTEXT_INVALID' };
}

/** All or none: null unless every field is there and course-service is the validator. */
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

/**
 * What a start does when the student has an open attempt at the exam. It is handed back, and the new key becomes an
 * alias of it while there is room, so that the retry of this very request can never start a second attempt. Only a
 * start through an active link other than the attempt's own is refused: it asks for a new attempt.
 */
export function reuseOpenAttempt(
  open: Pick<Attempt, '_id' | 'accessLinkId' | 'startKeys'>,
  request: { access: StartAccess; startKey: string; now: Date },
): { reuse: true; storeAlias: boolean } | Rejection {
  const link = activeLink(request.access, request.now);
  if (link !== null && link.id !== open.accessLinkId) {
    return { rejected: 'ATTEMPT_ALREADY_OPEN', data: { attemptId: open._id } };
  }
  const known = open.startKeys.includes(request.startKey);
  // The first key is the start's own; only the others are aliases.
  const hasRoom = open.startKeys.length - 1 < MAX_START_KEY_ALIASES;
  return { reuse: true, storeAlias: !known && hasRoom };
}

/** The link that makes this a link start: active, and its expiry still ahead of the current instant. */
function activeLink(access: StartAccess, now: Date): StartLink | null {
  const link = access.link ?? null;
  if (link === null || !link.active) return null;
  const expiresAt = instantOf(link.expiresAt);
  return expiresAt !== null && expiresAt.getTime() <= now.getTime() ? null : link;
}

/** What rules 4–8 decided, and what rules 9 and 10 still need facts for. */
export interface StartPlan {
  kind: 'link' | 'assignment';
  link: { id: string; mode: StartLink['mode'] } | null;
  /** Submitted and graded attempts allowed within `limitScope`; null = unlimited. */
  limit: number | null;
  /** `exam`: that student's attempts at the exam; `link`: that student's attempts on the link. */
  limitScope: 'exam' | 'link';
  /** Distinct students of a GUEST_ALLOWED link; null = no seats are counted. */
  seatLimit: number | null;
  /** Binds assignment starts only. */
  dueAt: Date | null;
}

/** Rules 4–8, in their order: may an attempt begin now, and by which way in? */
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

/** What the store counts for rule 9, inside the transaction that inserts the attempt. */
interface StartCounts {
  /** Submitted and graded attempts within the plan's `limitScope`. */
  attempts: number;
  /** Seats of the link already taken, by anyone. */
  seats: number;
  /** The student holds one of them. */
  hasSeat: boolean;
}

/** Rules 9 and 10, in their order. */
export function admitStart(plan: StartPlan, counts: StartCounts, now: Date): Rejection | null {
  if (plan.limit !== null && counts.attempts >= plan.limit) return { rejected: 'ATTEMPT_LIMIT_REACHED' };
  if (plan.seatLimit !== null && !counts.hasSeat && counts.seats >= plan.seatLimit) {
    return { rejected: 'ACCESS_LINK_FULL' };
  }
  if (plan.dueAt !== null && now.getTime() >= plan.dueAt.getTime()) return { rejected: 'ASSIGNMENT_OVERDUE' };
  return null;
}

/**
 * A free seat number that keeps a link within `limit` students, or null when it is full. `taken` are the numbers of those who
 * sit, `unnumbered` counts those who came while the link had no limit; `random` is in [0, 1).
 *
 * A seat is drawn only below a bound L with L + (everybody who sits elsewhere) ≤ limit: seats are unique, so however many draw
 * at once from what they have read, no more than `limit` can sit, also after the limit was lowered.
 */
export function freeSeat(
  { taken, unnumbered, limit }: { taken: readonly number[]; unnumbered: number; limit: number },
  random: number,
): number | null {
  const ascending = [...taken].sort((a, b) => a - b);
  let below = ascending.length;
  let bound = limit - unnumbered;
  // Who sits at or above the bound takes a place from it, and that lowers the bound.
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
