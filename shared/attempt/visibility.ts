import { type Attempt, isVoided } from './attempt.ts';

export const HIDDEN_REASONS = {
  inProgress: 'Bài làm chưa được nộp.',
  beingGraded: 'Bài làm đang được chấm.',
  untilClose: 'Kết quả sẽ được hiển thị sau khi bài thi đóng.',
  untilRelease: 'Kết quả sẽ được hiển thị khi giáo viên công bố.',
  voided: 'Bài làm đã bị huỷ.',
} as const;

type HiddenReason = (typeof HIDDEN_REASONS)[keyof typeof HIDDEN_REASONS];

type Visibility = { resultVisible: true; hiddenReason: null } | { resultVisible: false; hiddenReason: HiddenReason };

export type Role = 'STUDENT' | 'TEACHER' | 'PARENT' | 'ADMIN';

/**
 * The caller that reads an attempt. SERVICE is a sister service on an internal route. It sees no more than the student,
 * because its logs may contain the replies.
 */
export interface Viewer {
  role: Role | 'SERVICE';
  id: string;
}

type VisibilityFacts = Pick<Attempt, 'status' | 'scope' | 'voidedAt'> & {
  exam: Pick<Attempt['exam'], 'showResultMode' | 'closeTime' | 'resultsReleasedAt'>;
};

const VISIBLE: Visibility = { resultVisible: true, hiddenReason: null };

/**
 * Returns whether this viewer may see the result now, or the first reason why not. For an examiner the result is visible from
 * SUBMITTED on, although there are no scores until the attempt is GRADED.
 */
export function visibilityFor(attempt: VisibilityFacts, viewer: Viewer, now: Date): Visibility {
  if (attempt.status === 'IN_PROGRESS') return hidden('inProgress');
  return isExaminer(attempt, viewer) ? VISIBLE : visibilityForStudent(attempt, now);
}

/** Returns the visibility for the student of the attempt. Grading and releases also use it to decide about notices. */
export function visibilityForStudent(attempt: Omit<VisibilityFacts, 'scope'>, now: Date): Visibility {
  if (attempt.status === 'IN_PROGRESS') return hidden('inProgress');
  if (isVoided(attempt)) return hidden('voided');
  if (attempt.status === 'SUBMITTED') return hidden('beingGraded');
  const { closeTime, resultsReleasedAt, showResultMode } = attempt.exam;
  if (showResultMode === 'IMMEDIATE') return VISIBLE;
  if (hasCome(resultsReleasedAt, now)) return VISIBLE;
  if (showResultMode === 'AFTER_CLOSE') return hasCome(closeTime, now) ? VISIBLE : hidden('untilClose');
  return hidden('untilRelease');
}

/** Returns true from that instant on, and false if it is null or in the future. */
function hasCome(instant: Date | null, now: Date): boolean {
  return instant !== null && now.getTime() >= instant.getTime();
}

function hidden(reason: keyof typeof HIDDEN_REASONS): Visibility {
  return { resultVisible: false, hiddenReason: HIDDEN_REASONS[reason] };
}

/** Returns true for an admin or a teacher in the copied scope. Examiners see grades and keys under every result policy. */
export function isExaminer(attempt: Pick<Attempt, 'scope'>, viewer: Viewer): boolean {
  if (viewer.role === 'ADMIN') return true;
  if (viewer.role !== 'TEACHER') return false;
  return attempt.scope.createdById === viewer.id || attempt.scope.resultViewerTeacherIds.includes(viewer.id);
}

/** Returns true for the student of the attempt. Only the owner may save answers, submit and post events. */
export function isOwner(attempt: Pick<Attempt, 'studentId'>, viewer: Viewer): boolean {
  return viewer.role === 'STUDENT' && viewer.id === attempt.studentId;
}

/** Returns true if the viewer may read detail, events and result: the owner or an examiner. */
export function mayRead(attempt: Pick<Attempt, 'studentId' | 'scope'>, viewer: Viewer): boolean {
  return isOwner(attempt, viewer) || isExaminer(attempt, viewer);
}

/** Returns who voided an attempt and when; nothing of any other one. The reason is for examiners alone. */
export function voidForReply(attempt: Pick<Attempt, 'scope' | 'voidedAt' | 'voidedBy' | 'voidReason'>, viewer: Viewer) {
  if (!isVoided(attempt)) return {};
  const { voidedAt, voidedBy, voidReason } = attempt;
  return {
    voidedAt: voidedAt?.toISOString() ?? null,
    voidedBy: voidedBy ?? null,
    ...(isExaminer(attempt, viewer) ? { voidReason: voidReason ?? null } : {}),
  };
}
