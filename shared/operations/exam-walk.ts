/** Attempts of a page: by default, and at most. */
export const PAGE_ATTEMPTS = 50;
export const MAX_PAGE_ATTEMPTS = 200;

/** States of an attempt, in the order in which it passes them. */
export const ATTEMPT_STATUSES = ['IN_PROGRESS', 'SUBMITTED', 'GRADED'] as const;

/** The attempts of a walk: all of an exam, of one status, of one student, or both. */
export interface ExamWalk {
  examId: string;
  status: (typeof ATTEMPT_STATUSES)[number] | null;
  student: string | null;
}

/**
 * Returns the cursor after the attempt of this id: opaque to clients. It names the walk, because after another filter the same place would
 * skip attempts.
 */
export function walkCursor({ examId, status, student }: ExamWalk, lastId: string): string {
  return Buffer.from(JSON.stringify([examId, status, student, lastId])).toString('base64url');
}

/** Returns the id after which a walk continues, or null if no reply to the same walk contained such a cursor. */
export function readWalkCursor({ examId, status, student }: ExamWalk, cursor: string): string | null {
  try {
    const parts: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString('utf8'));
    if (!Array.isArray(parts) || parts.length !== 4) return null;
    const [ofExam, ofStatus, ofStudent, lastId]: unknown[] = parts;
    const isOfWalk = ofExam === examId && ofStatus === status && ofStudent === student;
    return isOfWalk && typeof lastId === 'string' && lastId !== '' ? lastId : null;
  } catch {
    return null;
  }
}

/** Times that decide whether an attempt is late. `submittedAt` is null while it is in progress. */
interface Times {
  deadlineAt: Date | null;
  submittedAt: Date | null;
}

/**
 * Returns the whole seconds by which an attempt is late, or null if it is not. An attempt in progress is over at the instant of its deadline.
 * A submit by deadline has the time of the deadline, so only a student's own submit is late.
 */
export function lateSeconds({ deadlineAt, submittedAt }: Times, now: number): number | null {
  if (deadlineAt === null) return null;
  const lateMs = (submittedAt?.getTime() ?? now) - deadlineAt.getTime();
  const isLate = submittedAt === null ? lateMs >= 0 : lateMs > 0;
  return isLate ? Math.floor(lateMs / 1_000) : null;
}
