import type { Attempt } from './attempt.ts';

export type Role = 'STUDENT' | 'TEACHER' | 'PARENT' | 'ADMIN';

/**
 * Who asks. SERVICE is a sister service on an internal route: it is told no more than the student, because what it
 * is sent may end up in its logs.
 */
export interface Viewer {
  role: Role | 'SERVICE';
  id: string;
}

type Readable = Pick<Attempt, 'studentId' | 'scope'>;

/** The only one who saves answers, submits and posts events. */
export function isOwner(attempt: Pick<Attempt, 'studentId'>, viewer: Viewer): boolean {
  return viewer.role === 'STUDENT' && viewer.id === attempt.studentId;
}

/** Sees grades and keys whatever the result policy says: an admin, or a teacher in the copied scope. */
export function isExaminer(attempt: Pick<Attempt, 'scope'>, viewer: Viewer): boolean {
  if (viewer.role === 'ADMIN') return true;
  if (viewer.role !== 'TEACHER') return false;
  return attempt.scope.createdById === viewer.id || attempt.scope.resultViewerTeacherIds.includes(viewer.id);
}

/** Detail, events and result. Parents and other teachers have no way in. */
export function mayRead(attempt: Readable, viewer: Viewer): boolean {
  return isOwner(attempt, viewer) || isExaminer(attempt, viewer);
}
