import { LAST_INSTANT, MINUTE } from '#shared/kernel/time.ts';

/** One student's sitting of one exam: the central document of the attempt service. */
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
  /** The key of the first start, followed by its aliases: keys of later starts that returned this open attempt. */
  startKeys: string[];
  /** JSON text of the object that was sent, because MongoDB does not accept every key. */
  studentInfo: string | null;
  courseContext: CourseContext | null;
  exam: ExamSnapshot;
  scope: TeacherScope;
  paperId: string;
  /** Maps a position in this attempt to an index in the paper. */
  order: number[];
  /** By paper index: positions of the question's options. [] means the order of the paper. */
  optionOrders: number[][];
  /** 128 random bits that no reply contains. The shuffles and the ids of the questions derive from it. */
  seed: string;
  /** The sum of the questions' scores. */
  maxScore: number;
  /** The key of an answer is `answerKeyOf(paperIndex)`. */
  answers: Record<string, StoredAnswer>;
  /** The newest events, ascending. Older events are stored in rows of their own. */
  events: AttemptEvent[];
  /** Number of events ever written. */
  eventSeq: number;
  clientEvents: number;
  answerBytes: number;
  /** Number of the exam's newest release when the start was decided, or 0. Only releases with a higher number bind this attempt. */
  releasesSeen: number;
  /** Source event of the release that set `exam.resultsReleasedAt`; null if the start set the time or it is not set. */
  releaseEventId: string | null;
  /** Source events of the handoffs that have found this attempt ungraded and wait for its grade. Absent if none has. */
  waitingHandoffs?: string[];
  totalScore: number | null;
  correctCount: number | null;
  wrongCount: number | null;
  pendingManualCount: number | null;
  tally: Tally;
  /** Minutes that examiners have added to the deadline, and the acts that did. Absent: none. */
  extraMinutes?: number;
  extraTime?: string[];
  /** 2, 3, … after the attempt was reopened. Absent: it is in its first round. Keys and source events of a later round end with it. */
  round?: number;
  /** Set while the attempt is voided: it counts for no limit, seat or release, and its student sees no result. */
  voidedAt?: Date | null;
  voidedBy?: string | null;
  voidReason?: string | null;
  /** Limits of the start, for an act that makes the attempt count again. Absent in attempts that started before they were stored. */
  startLimits?: StartLimits;
  /** The grades that the attempt has had, oldest first. Absent: none since they are stored. */
  scoreHistory?: ScoreChange[];
  /** Times at which the student's page was hidden while the attempt was open. Absent if it never was. */
  away?: Away | null;
  /** Times that the client reported a retry of its network. Absent if it never did. */
  networkRetries?: number | null;
  /** Time of the newest save or event of the student. Absent before the first one. */
  lastSeenAt?: Date | null;
  /** Time of the newest save. Absent before the first one. */
  lastSavedAt?: Date | null;
  /** Time of the newest write that a board shows and that is no sign of the student. Absent before the submit, without an act of an examiner. */
  boardAt?: Date | null;
  /** Time at which the student was erased: `studentId` is a pseudonym, and texts are empty. Absent before. */
  erasedAt?: Date | null;
  /** A new random text at every write. A decision that was made on a copy commits only if the stored stamp is unchanged. */
  stamp: string;
}

/** How often and how long the student of an attempt had its page hidden. */
export interface Away {
  count: number;
  /** Seconds of the times that are over. */
  seconds: number;
  /** Time since which the page is hidden; null if it is shown. */
  since: Date | null;
}

/** Names one attempt for a command of MongoDB: its id and its shard key. The student of an attempt changes only by an erasure. */
export type AttemptKey = Pick<Attempt, '_id' | 'studentId'>;

/** An attempt in one of its rounds. */
export type Sitting = AttemptKey & Pick<Attempt, 'round'>;

/** The round of an attempt, counted from 1. */
export function roundOf({ round }: Pick<Attempt, 'round'>): number {
  return round ?? 1;
}

/** Returns the end of the keys and source events of this round: empty in the first one. */
export function ofRound(attempt: Pick<Attempt, 'round'>): string {
  return roundOf(attempt) === 1 ? '' : `:${roundOf(attempt)}`;
}

/** Returns true while the attempt is voided. */
export function isVoided({ voidedAt }: Pick<Attempt, 'voidedAt'>): boolean {
  return voidedAt !== undefined && voidedAt !== null;
}

/** Limits of a start, as its plan had them. `seats` counts only if the link admits guests. */
export interface StartLimits {
  attempts: number | null;
  scope: 'exam' | 'link';
  guests: boolean;
  seats: number | null;
}

/** The grade that a cause has left. */
export interface ScoreChange {
  at: Date;
  /** The examiner; null for the grading worker and for a service. */
  by: string | null;
  cause: 'GRADE' | 'HANDOFF' | 'REOPEN' | 'REGRADE';
  /** null after a reopening. */
  totalScore: number | null;
  maxScore: number;
  regradeId: string | null;
  reason: string | null;
  /** A regrade changed a result that its student sees, or would see if the attempt were not voided: it is announced. */
  isNews?: true;
}

export type AttemptStatus = 'IN_PROGRESS' | 'SUBMITTED' | 'GRADED';
/** Cause of a submit. TEACHER: an examiner of the attempt. */
export type SubmitSource = 'STUDENT' | 'TIMEOUT' | 'TEACHER';

export interface StoredAnswer extends AnswerContent {
  /** The text is stored in a row of its own. The store fills `text` when it loads the answer for grading or detail. */
  textRef?: true;
  /** 1 at the first save; incremented by each later save. */
  serverVersion: number;
  clientVersion: number;
  /** The part of `answerBytes` that belongs to this answer. */
  bytes: number;
  updatedAt: Date;
  /** Grading sets `isCorrect` and `score`. Both are null while the answer is ungraded or waits for a grade by hand. */
  isCorrect: boolean | null;
  score: number | null;
  /** Grader of a grade by hand; absent before the first one. */
  grader?: Grader;
  /** The grade by hand that stands in a new round as long as the answer does not change. A save drops it. */
  standing?: { isCorrect: boolean; score: number };
}

/** Rank of a grade by hand: a person's counts before a machine's, then the later one. */
export interface Grader {
  isPerson: boolean;
  /** Time of the grade by the clock of its sender, or of its application if the sender named none. */
  at: Date;
}

/** Content of a student's answer: exactly one of the three kinds. */
export interface AnswerContent {
  selected?: string[];
  statements?: { statementId: string; value: boolean | null }[];
  text?: string;
}

/** Returns the field of `attempt.answers` for the question at this paper index. */
export function answerKeyOf(paperIndex: number): string {
  return `q${paperIndex}`;
}

export interface AttemptEvent {
  /** 1 for START; incremented by each later event. */
  seq: number;
  type: EventType;
  /** JSON text, because keys may begin with `$` or contain a dot. */
  metadata: string;
  createdAt: Date;
  /** The metadata is long and stored in the event's own row. This entry only marks the event's position. */
  inRow?: true;
}

/** Types of events that a client may post. A client's TIMEOUT submits an attempt that is still open. */
export const CLIENT_EVENT_TYPES = [
  'QUESTION_VIEW',
  'TAB_HIDDEN',
  'FOCUS_RETURNED',
  'NETWORK_RETRY',
  'TIMEOUT',
] as const;
export type ClientEventType = (typeof CLIENT_EVENT_TYPES)[number];

export const EVENT_TYPES = [
  'START',
  'SAVE_ANSWER',
  'SUBMIT',
  ...CLIENT_EVENT_TYPES,
  'ESSAY_GRADE_HANDOFF',
  'TIME_EXTENDED',
  'REOPENED',
  'VOIDED',
  'RESTORED',
  'REGRADED',
] as const;
export type EventType = (typeof EVENT_TYPES)[number];

/** The exam's result policy and description as of the start. Only `resultsReleasedAt` ever changes. */
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

/** Teachers and classrooms of the exam. Its author and the result viewers may read the attempt, as may its student. */
interface TeacherScope {
  createdById: string | null;
  assignedClassroomIds: string[];
  resultViewerTeacherIds: string[];
}

/** Facts that summaries count. They are stored on the attempt so that an index alone can answer; `eventSeq` counts the events. */
interface Tally {
  linked: boolean;
  keyed: boolean;
  scored: boolean;
  released: boolean;
  questions: number;
  answers: number;
  graded: number;
}

/** Immutable identifiers of the course that owns the attempt, as validated by the course service. All fields are required. */
export interface CourseContext {
  courseId: string;
  courseQuizReferenceId: string;
  lessonId: string;
  studentId: string;
  organizationId: string;
  validatedBy: 'course-service';
  validatedAt: Date;
}

/** Returns the course context for replies and events: named fields only, with the instant as ISO 8601 text. */
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
 * Returns the deadline of an attempt: the earliest of its bounds, or null if it has none. At that instant the attempt is
 * over. A due time binds assignment starts only, so a link start passes null as `assignmentDueAt`.
 */
export function deadlineOf(bounds: {
  startedAt: Date;
  durationMinutes: number | null;
  closeTime: Date | null;
  assignmentDueAt: Date | null;
}): Date | null {
  const instants: number[] = [];
  if (bounds.durationMinutes !== null) {
    // Limits the deadline to dates that ISO 8601 writes without a sign.
    instants.push(Math.min(bounds.startedAt.getTime() + bounds.durationMinutes * MINUTE, LAST_INSTANT));
  }
  if (bounds.closeTime !== null) instants.push(bounds.closeTime.getTime());
  if (bounds.assignmentDueAt !== null) instants.push(bounds.assignmentDueAt.getTime());
  return instants.length === 0 ? null : new Date(Math.min(...instants));
}

/** Returns whether the deadline has come at `now`. An attempt without a deadline is never over. */
export function isOver(deadlineAt: Date | null, now: Date): boolean {
  return deadlineAt !== null && now.getTime() >= deadlineAt.getTime();
}

/** Returns the whole seconds left at `now`, 0 if the attempt is over, or null if it has no deadline. */
export function remainingSeconds(deadlineAt: Date | null, now: Date): number | null {
  if (deadlineAt === null) return null;
  return Math.max(0, Math.floor((deadlineAt.getTime() - now.getTime()) / 1_000));
}
