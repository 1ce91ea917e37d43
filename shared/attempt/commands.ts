import type { CommandRef, Order } from '#shared/kernel/command.ts';
import { type EventOut, publishOrder } from '#shared/kernel/event-out.ts';
import { type Attempt, type AttemptKey, ofRound, type Sitting } from './attempt.ts';
import type { StatedAct } from './events.ts';
import type { EssayHandoff, SupersededBy } from './handoff.ts';
import type { GradeNotice } from './notices.ts';
import type { StoredRelease } from './release.ts';

/**
 * Body, progress and result of the attempt service's commands, by queue. The sender writes the body and may read the result;
 * a run stores its progress. Front doors and workers share these definitions only.
 */
export interface AttemptCommands {
  /** SUBMITTED → GRADED. */
  grading: { body: GradingBody; progress: null; result: { attemptId: string } };
  /** Applies one grade by a person or a model. */
  essayhandoff: {
    body: AboutAttempt & { handoff: EssayHandoff };
    progress: null;
    /** `supersededBy` is absent if the grade was applied. */
    result: { attemptId: string; supersededBy?: SupersededBy };
  };
  /** Makes the results of an exam visible. */
  resultsrelease: { body: StoredRelease; progress: ReleaseProgress; result: ReleaseCounts };
  'gradenotices:student': NoticeContent;
  'gradenotices:parent': NoticeContent;
  /** Sends the events of a first grading to the analytics service. `events` is 0 if the student was erased before. */
  'upkeep:analytics': { body: AnalyticsBody; progress: null; result: { events: number } };
}

/** The attempt that a command is about. */
export interface AboutAttempt {
  attemptId: string;
  /** Shard key of the attempt. Absent after the erasure of the student. */
  studentId?: string;
}

export interface GradingBody extends AboutAttempt {
  /** Metadata of the client's TIMEOUT event that submitted the attempt, as JSON text; absent if the client sent none. */
  client?: string;
  /** The round that it grades; absent for the first one. */
  round?: number;
  /** The act of an examiner that submitted the attempt, who did it, and why; absent for other submits. */
  actId?: string;
  by?: string;
  /** Absent after the erasure of the student. */
  statedReason?: string;
}

/**
 * Facts of a first grading that later writes change. All other content of its events is read from the attempt when they are sent: the
 * grade follows from the paper and the answers alone, so it is computed again.
 */
interface AnalyticsBody extends AboutAttempt {
  /** The round that was graded; absent for the first one. */
  round?: number;
  gradedAt: Date;
  resultsReleasedAt: Date | null;
}

/** Content of an outbox command. Its body is the notice to send. */
interface NoticeContent {
  body: GradeNotice;
  progress: null;
  /** `recipients` is 0 if the student has no parents. */
  result: { recipients: number };
}

/** Counts of a release's changes. */
export interface ReleaseCounts {
  updatedAttempts: number;
  queuedNotifications: number;
}

/** Progress of a release: the id of the last attempt in the newest chunk, and the counts so far. */
export interface ReleaseProgress extends ReleaseCounts {
  afterId: string;
}

/** The recurring command that submits overdue attempts. */
export const OVERDUE_ATTEMPTS_SWEEP = { queue: 'upkeep', key: 'upkeep:overdue-attempts', subject: 'attempts' } as const;

/** Causes of a submit: metadata of a client's TIMEOUT event, as JSON text, or the act of an examiner. */
export interface SubmitCause {
  client?: string;
  act?: StatedAct;
}

/** Returns the only grading command of an attempt and round. The event that it stores names the cause of the submit. */
export function gradingOrder(attempt: Sitting, { client, act }: SubmitCause = {}): Order<'grading', GradingBody> {
  const body = {
    ...aboutRound(attempt),
    ...(client === undefined ? {} : { client }),
    ...(act === undefined ? {} : { actId: act.actId, by: act.by }),
    ...(act?.reason === undefined ? {} : { statedReason: act.reason }),
  };
  return { queue: 'grading', key: gradingKey(attempt), subject: attempt._id, body };
}

function aboutRound({ _id: attemptId, studentId, round }: Sitting) {
  return { attemptId, studentId, ...(round === undefined ? {} : { round }) };
}

/** Returns the key of the grading command: one per attempt and round. */
export function gradingKey(attempt: Pick<Attempt, '_id' | 'round'>): string {
  return `grading:${attempt._id}${ofRound(attempt)}`;
}

/** Returns the handoff command of an attempt and source event. */
export function handoffOrder(
  { _id: attemptId, studentId }: AttemptKey,
  handoff: EssayHandoff,
): Order<'essayhandoff', AttemptCommands['essayhandoff']['body']> {
  const key = handoffKey(attemptId, handoff.sourceEventId);
  return { queue: 'essayhandoff', key, subject: attemptId, body: { attemptId, studentId, handoff } };
}

/** Returns the key of a handoff: one per attempt and source event. The ids are JSON, so that different pairs never have the same key. */
export function handoffKey(attemptId: string, sourceEventId: string): string {
  return `essayhandoff:[${JSON.stringify(attemptId)},${JSON.stringify(sourceEventId)}]`;
}

/** Returns the release command of a source event. */
export function releaseOrder({ studentIds: _, ...release }: StoredRelease): Order<'resultsrelease', StoredRelease> {
  // The row of the release has its students: each claim and poll reads the command, and an erasure finds persons in the row.
  return {
    queue: 'resultsrelease',
    key: releaseKey(release.sourceEventId),
    subject: release.examId,
    body: release,
  };
}

/** Returns the key of the release command: one per source event. */
export function releaseKey(sourceEventId: string): string {
  return `resultsrelease:${sourceEventId}`;
}

/** Returns the command that reports the first grading of a round: one per attempt and round. `graded` is the attempt as the grade stores it. */
export function analyticsOrder(
  graded: Sitting & Pick<Attempt, 'exam'>,
  gradedAt: Date,
): Order<'upkeep:analytics', AnalyticsBody> {
  const { _id, exam } = graded;
  const body = { ...aboutRound(graded), gradedAt, resultsReleasedAt: exam.resultsReleasedAt };
  return { queue: 'upkeep:analytics', key: `analytics:${_id}${ofRound(graded)}`, subject: _id, body };
}

/** Returns the command that publishes the submit of an attempt: one per attempt and round. */
export function submittedOrder(attempt: Sitting): Order<'upkeep:publish', EventOut> {
  return publishOrder({ type: 'attempt.submitted', ...aboutRound(attempt) }, `${attempt._id}${ofRound(attempt)}`);
}

/** Returns the command that publishes the first grading of a round: one per attempt and round. `isVisible`: the student sees the result at once. */
export function gradedOrder(
  attempt: Sitting,
  { at, isVisible }: { at: Date; isVisible: boolean },
): Order<'upkeep:publish', EventOut> {
  const source = `${attempt._id}${ofRound(attempt)}`;
  return publishOrder({ type: 'attempt.graded', ...aboutRound(attempt), gradedAt: at, isVisible }, source);
}

/** Returns the command that publishes a release: one per exam and release. It counts the students whom the release names, and names none. */
export function releasedOrder(release: StoredRelease): Order<'upkeep:publish', EventOut> {
  const { examId, organizationId, releasedAt, sourceEventId, studentIds } = release;
  const students = studentIds?.length ?? null;
  return publishOrder({ type: 'results.released', examId, organizationId, students, releasedAt }, sourceEventId);
}

type NoticeQueue = 'gradenotices:student' | 'gradenotices:parent';

/** Returns the stored notice command of an attempt and recipient. Its key is also its `_id`. */
export function noticeCommand({ recipient, sourceEventId }: GradeNotice): CommandRef<NoticeQueue> {
  const queue = recipient === 'STUDENT' ? 'gradenotices:student' : 'gradenotices:parent';
  return { _id: sourceEventId, queue, key: sourceEventId };
}

/** Returns the order of a notice command. */
export function noticeOrder(notice: GradeNotice): Order<NoticeQueue, GradeNotice> {
  const { queue, key } = noticeCommand(notice);
  return {
    queue,
    key,
    subject: notice.attemptId,
    body: notice,
  };
}
