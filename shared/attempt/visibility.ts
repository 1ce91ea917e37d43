import type { Attempt } from './attempt.ts';

export const HIDDEN_REASONS = {
  inProgress: 'Bài làm chưa được nộp.',
  beingGraded: 'Bài làm đang được chấm.',
  untilClose: 'Kết quả sẽ được hiển thị sau khi bài thi đóng.',
  untilRelease: 'Kết quả sẽ được hiển thị khi giáo viên công bố.',
} as const;

type HiddenReason = (typeof HIDDEN_REASONS)[keyof typeof HIDDEN_REASONS];

type Visibility = { resultVisible: true; hiddenReason: null } | { resultVisible: false; hiddenReason: HiddenReason };

export type Role = 'STUDENT' | 'TEACHER' | 'PARENT' | 'ADMIN';

/**
 * Who asks. SERVICE is a sister service on an internal route: it is told no more than the student, because what it
 * is sent may end up in its logs.
 */
export interface Viewer {
  role: Role | 'SERVICE';
  id: string;
}

type VisibilityFacts = Pick<Attempt, 'status' | 'scope'> & {
  exam: Pick<Attempt['exam'], 'showResultMode' | 'closeTime' | 'resultsReleasedAt'>;
};

const VISIBLE: Visibility = { resultVisible: true, hiddenReason: null };

/**
 * May this viewer see the result now, and if not, why? The first reason that fits. An examiner is told that nothing
 * is hidden from SUBMITTED on, although there are no scores until the grade.
 */
export function visibilityFor(attempt: VisibilityFacts, viewer: Viewer, now: Date): Visibility {
  if (attempt.status === 'IN_PROGRESS') return hidden('inProgress');
  return isExaminer(attempt, viewer) ? VISIBLE : visibilityForStudent(attempt, now);
}

/** The same for the owner; also the question that a grade and a release ask before they queue a notice. */
export function visibilityForStudent(attempt: Omit<VisibilityFacts, 'scope'>, now: Date): Visibility {
  if (attempt.status === 'IN_PROGRESS') return hidden('inProgress');
  if (attempt.status === 'SUBMITTED') return hidden('beingGraded');
  const { closeTime, resultsReleasedAt, showResultMode } = attempt.exam;
  if (showResultMode === 'IMMEDIATE') return VISIBLE;
  // Released is that the time is set, whatever its value: even one that lies ahead.
  if (resultsReleasedAt !== null) return VISIBLE;
  if (showResultMode === 'AFTER_CLOSE') {
    return closeTime !== null && now.getTime() >= closeTime.getTime() ? VISIBLE : hidden('untilClose');
  }
  return hidden('untilRelease');
}

function hidden(reason: keyof typeof HIDDEN_REASONS): Visibility {
  return { resultVisible: false, hiddenReason: HIDDEN_REASONS[reason] };
}

/** Sees grades and keys whatever the result policy says: an admin, or a teacher in the copied scope. */
export function isExaminer(attempt: Pick<Attempt, 'scope'>, viewer: Viewer): boolean {
  if (viewer.role === 'ADMIN') return true;
  if (viewer.role !== 'TEACHER') return false;
  return attempt.scope.createdById === viewer.id || attempt.scope.resultViewerTeacherIds.includes(viewer.id);
}

/** The only one who saves answers, submits and posts events. */
export function isOwner(attempt: Pick<Attempt, 'studentId'>, viewer: Viewer): boolean {
  return viewer.role === 'STUDENT' && viewer.id === attempt.studentId;
}

/** Detail, events and result. Parents and other teachers have no way in. */
export function mayRead(attempt: Pick<Attempt, 'studentId' | 'scope'>, viewer: Viewer): boolean {
  return isOwner(attempt, viewer) || isExaminer(attempt, viewer);
}
