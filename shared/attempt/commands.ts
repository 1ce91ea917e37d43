import type { Order } from '#shared/kernel/command.ts';
import type { EssayHandoff } from './handoff.ts';
import type { GradeNotice } from './notices.ts';
import type { Release } from './release.ts';

/**
 * What the commands of the attempt service carry, by queue: the body that their sender writes, how far a run has come,
 * and the result that a sender may read. Front doors and workers know them from here alone.
 */
export interface AttemptCommands {
  /** SUBMITTED → GRADED. */
  grading: { body: { attemptId: string }; progress: null; result: { attemptId: string } };
  /** Applies one grade that was given by hand or by a model. */
  essayhandoff: {
    body: { attemptId: string; handoff: EssayHandoff };
    progress: null;
    result: { attemptId: string };
  };
  /** Makes the results of an exam visible. */
  resultsrelease: { body: Release; progress: ReleaseProgress; result: ReleaseCounts };
  'gradenotices:student': NoticeContent;
  'gradenotices:parent': NoticeContent;
}

/** An outbox row: the notice is the body of the command that sends it. */
interface NoticeContent {
  body: GradeNotice;
  progress: null;
  /** 0: the student has no parents. */
  result: { recipients: number };
}

/** What a release has changed. */
export interface ReleaseCounts {
  updatedAttempts: number;
  queuedNotifications: number;
}

/** How far a release has come: the last attempt of the newest chunk, and the counts up to it. */
export interface ReleaseProgress extends ReleaseCounts {
  afterId: string;
}

/** The recurring command that submits overdue attempts. */
export const OVERDUE_ATTEMPTS_SWEEP = { queue: 'upkeep', key: 'upkeep:overdue-attempts', subject: 'attempts' } as const;

/** One grading of an attempt, ever. */
export function gradingOrder(attemptId: string): Order<'grading', AttemptCommands['grading']['body']> {
  return { queue: 'grading', key: gradingKey(attemptId), subject: attemptId, body: { attemptId } };
}

export function gradingKey(attemptId: string): string {
  return `grading:${attemptId}`;
}

/** One handoff per attempt and source event. */
export function handoffOrder(
  attemptId: string,
  handoff: EssayHandoff,
): Order<'essayhandoff', AttemptCommands['essayhandoff']['body']> {
  const key = `${handoffPrefix(attemptId)}${JSON.stringify(handoff.sourceEventId)}]`;
  return { queue: 'essayhandoff', key, subject: attemptId, body: { attemptId, handoff } };
}

/** Bounds of the keys of an attempt's handoffs, the upper one excluded. */
export function handoffKeys(attemptId: string): { from: string; below: string } {
  // The source event follows as JSON text: it begins with a quotation mark, and the next character is a hash.
  const prefix = handoffPrefix(attemptId);
  return { from: `${prefix}"`, below: `${prefix}#` };
}

/** As JSON, so that no choice of ids lets two pairs share a key. */
function handoffPrefix(attemptId: string): string {
  return `essayhandoff:[${JSON.stringify(attemptId)},`;
}

/** One release per source event. */
export function releaseOrder(release: Release): Order<'resultsrelease', Release> {
  return {
    queue: 'resultsrelease',
    key: `resultsrelease:${release.sourceEventId}`,
    subject: release.examId,
    body: release,
  };
}

/** One notice per attempt and recipient; its key is the row's `_id` too. */
export function noticeOrder(notice: GradeNotice): Order<'gradenotices:student' | 'gradenotices:parent', GradeNotice> {
  return {
    queue: notice.recipient === 'STUDENT' ? 'gradenotices:student' : 'gradenotices:parent',
    key: notice.sourceEventId,
    subject: notice.attemptId,
    body: notice,
  };
}
