import type { Rejection } from '#shared/kernel/errors.ts';
import { instantOf } from '#shared/kernel/time.ts';
import type { StartAccess, StartBody, StartExam, StartLink } from './start-body.ts';

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

/** What the store counts for rule 9, inside the transaction that inserts the attempt. */
export interface StartCounts {
  /** Submitted and graded attempts within the plan's `limitScope`. */
  attempts: number;
  /** Seats of the link already taken, by anyone. */
  seats: number;
  /** The student holds one of them. */
  hasSeat: boolean;
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

/** Rules 9 and 10, in their order. */
export function admitStart(plan: StartPlan, counts: StartCounts, now: Date): Rejection | null {
  if (plan.limit !== null && counts.attempts >= plan.limit) return { rejected: 'ATTEMPT_LIMIT_REACHED' };
  if (plan.seatLimit !== null && !counts.hasSeat && counts.seats >= plan.seatLimit) {
    return { rejected: 'ACCESS_LINK_FULL' };
  }
  if (plan.dueAt !== null && now.getTime() >= plan.dueAt.getTime()) return { rejected: 'ASSIGNMENT_OVERDUE' };
  return null;
}

/** The link that makes this a link start: active, and its expiry still ahead of the current instant. */
export function activeLink(access: StartAccess, now: Date): StartLink | null {
  const link = access.link ?? null;
  if (link === null || !link.active) return null;
  const expiresAt = instantOf(link.expiresAt);
  return expiresAt !== null && expiresAt.getTime() <= now.getTime() ? null : link;
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
