import { LAST_INSTANT, MINUTE } from '#shared/kernel/time.ts';

/** One exam sitting of one student: the aggregate that every route and worker of this service is about. */
export interface Attempt {
  _id: string;
  v: 1;
  examId: string;
  studentId: string;
  organizationId: string | null;
  accessLinkId: string | null;
  attemptNumber: number;
  status: AttemptStatus;
  startedAt: Date;
  submittedAt: Date | null;
  deadlineAt: Date | null;
  durationSeconds: number | null;
  submittedBy: SubmitSource | null;
  /** The key of the first start, then the aliases under which the open attempt was asked for again. */
  startKeys: string[];
  studentInfo: Record<string, string> | null;
  courseContext: CourseContext | null;
  exam: ExamSnapshot;
  scope: TeacherScope;
  paperId: string;
  /** Position in this attempt -> index in the paper. */
  order: number[];
  /** By paper index, positions into the question's options; [] = the paper's own order. */
  optionOrders: number[][];
  seed: string;
  /** The sum of the questions' scores. */
  maxScore: number;
  /** Under `answerKeyOf(paperIndex)`. */
  answers: Record<string, StoredAnswer>;
  /** The newest events, ascending; older ones lie in rows of their own. */
  events: AttemptEvent[];
  /** How many events were ever written. */
  eventSeq: number;
  clientEvents: number;
  answerBytes: number;
  totalScore: number | null;
  correctCount: number | null;
  wrongCount: number | null;
  pendingManualCount: number | null;
  tally: Tally;
  /** A new random word at every write: a decision made on this copy is committed only if it is still the newest. */
  stamp: string;
}

export type AttemptStatus = 'IN_PROGRESS' | 'SUBMITTED' | 'GRADED';
export type SubmitSource = 'STUDENT' | 'TIMEOUT';

export interface StoredAnswer extends AnswerContent {
  /** The text lies in a row of its own; `text` is filled in by the store when it is loaded for grading or detail. */
  textRef?: true;
  /** 1 at the first save, one more at each later one. */
  serverVersion: number;
  clientVersion: number;
  /** What this answer adds to `answerBytes`. */
  bytes: number;
  updatedAt: Date;
  /** Both set by grading; null while ungraded or waiting for a grade by hand. */
  isCorrect: boolean | null;
  score: number | null;
}

/** What a student gave as an answer: exactly one of the three kinds. */
export interface AnswerContent {
  selected?: string[];
  statements?: { statementId: string; value: boolean | null }[];
  text?: string;
}

/** The field of `attempt.answers` that holds the answer to the question at this paper index. */
export function answerKeyOf(paperIndex: number): string {
  return `q${paperIndex}`;
}

export interface AttemptEvent {
  /** 1 for START, one more each. */
  seq: number;
  type: EventType;
  /** JSON text, so that keys which begin with `$` or hold a dot survive the store. */
  metadata: string;
  createdAt: Date;
  /** The metadata is long and lies in the event's own row; what stands here is only its place in the order. */
  inRow?: true;
}

/** What a client may post. Its TIMEOUT submits an attempt that is still open. */
export const CLIENT_EVENT_TYPES = [
  'QUESTION_VIEW',
  'TAB_HIDDEN',
  'FOCUS_RETURNED',
  'NETWORK_RETRY',
  'TIMEOUT',
] as const;
export type ClientEventType = (typeof CLIENT_EVENT_TYPES)[number];

export const EVENT_TYPES = ['START', 'SAVE_ANSWER', 'SUBMIT', ...CLIENT_EVENT_TYPES, 'ESSAY_GRADE_HANDOFF'] as const;
export type EventType = (typeof EVENT_TYPES)[number];

/** The exam's result policy and description as they were at the start; only the release time ever changes. */
export interface ExamSnapshot {
  title: string;
  subject: string | null;
  gradeLevel: string | number | null;
  status: string;
  durationMinutes: number | null;
  showResultMode: ShowResultMode;
  closeTime: Date | null;
  resultsReleasedAt: Date | null;
}

export type ShowResultMode = 'IMMEDIATE' | 'AFTER_CLOSE' | 'MANUAL';

/** Who besides the student may read the attempt. */
interface TeacherScope {
  createdById: string | null;
  assignedClassroomIds: string[];
  resultViewerTeacherIds: string[];
}

/** What summaries count, kept on the attempt so that an index alone can answer them. `events` is `eventSeq`. */
interface Tally {
  linked: boolean;
  keyed: boolean;
  scored: boolean;
  released: boolean;
  questions: number;
  answers: number;
  graded: number;
}

/** The owner decision of the course service: identifiers and validation facts only, all or none, immutable. */
export interface CourseContext {
  courseId: string;
  courseQuizReferenceId: string;
  lessonId: string;
  studentId: string;
  organizationId: string;
  validatedBy: 'course-service';
  validatedAt: Date;
}

/** The course context as replies and events carry it: named fields only, its instant as ISO 8601 text. */
export function courseContextOnWire(context: CourseContext | null) {
  if (context === null) return null;
  return {
    courseId: context.courseId,
    courseQuizReferenceId: context.courseQuizReferenceId,
    lessonId: context.lessonId,
    studentId: context.studentId,
    organizationId: context.organizationId,
    validatedBy: context.validatedBy,
    validatedAt: context.validatedAt.toISOString(),
  };
}

/**
 * When the attempt must be handed in: the earliest of what bounds it, null when nothing does. At that very instant
 * it is over. A due time binds assignment starts only, so a link start passes null for it.
 */
export function deadlineOf(bounds: {
  startedAt: Date;
  durationMinutes: number | null;
  closeTime: Date | null;
  assignmentDueAt: Date | null;
}): Date | null {
  const instants: number[] = [];
  if (bounds.durationMinutes !== null) {
    // A longer duration must not make a date that ISO 8601 writes with a sign.
    instants.push(Math.min(bounds.startedAt.getTime() + bounds.durationMinutes * MINUTE, LAST_INSTANT));
  }
  if (bounds.closeTime !== null) instants.push(bounds.closeTime.getTime());
  if (bounds.assignmentDueAt !== null) instants.push(bounds.assignmentDueAt.getTime());
  return instants.length === 0 ? null : new Date(Math.min(...instants));
}

export function isOver(deadlineAt: Date | null, now: Date): boolean {
  return deadlineAt !== null && now.getTime() >= deadlineAt.getTime();
}

/** Whole seconds left at `now`, 0 when over, null without a deadline. */
export function remainingSeconds(deadlineAt: Date | null, now: Date): number | null {
  if (deadlineAt === null) return null;
  return Math.max(0, Math.floor((deadlineAt.getTime() - now.getTime()) / 1_000));
}
