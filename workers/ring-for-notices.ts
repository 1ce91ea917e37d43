import type { GradeNotice } from '#shared/attempt/notices.ts';
import type { WorkerDeps } from './deps.ts';

/** Wakes the dispatchers for rows that have committed; only where one can be listening: rings that nobody hears would pile up in Redis. */
export function ringForNotices(deps: WorkerDeps, notices: readonly GradeNotice[]): void {
  const { notification, profile } = deps.config.neighbours;
  if (notification === null) return;
  for (const { recipient, sourceEventId } of notices) {
    if (recipient === 'STUDENT') deps.ring('gradenotices:student', sourceEventId);
    else if (profile !== null) deps.ring('gradenotices:parent', sourceEventId);
  }
}
