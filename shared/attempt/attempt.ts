import type { EventType } from './event-types.ts';

export type AttemptStatus = 'IN_PROGRESS' | 'SUBMITTED' | 'GRADED';
export type SubmitSource = 'STUDENT' | 'TIMEOUT';
export type ShowResultMode = 'IMMEDIATE' | 'AFTER_CLOSE' | 'MANUAL';

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

/** What a student gave as an answer: exactly one of the three kinds. */
export interface AnswerContent {
  selected?: string[];
  statements?: { statementId: string; value: boolean | null }[];
  text?: string;
}

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

/** What summaries count, kept on the attempt so that an index alone can answer them. `events` is `eventSeq`. */
export interface Tally {
  linked: boolean;
  keyed: boolean;
  scored: boolean;
  released: boolean;
  questions: number;
  answers: number;
  graded: number;
}

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

/** Who besides the student may read the attempt. */
export interface TeacherScope {
  createdById: string | null;
  assignedClassroomIds: string[];
  resultViewerTeacherIds: string[];
}

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

/** The field of `attempt.answers` that holds the answer to the question at this paper index. */
export function answerKeyOf(paperIndex: number): string {
  return `q${paperIndex}`;
}
