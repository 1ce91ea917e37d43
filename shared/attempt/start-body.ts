import type { Optional } from '#shared/kernel/json.ts';
import type { ShowResultMode } from './attempt.ts';
import type { QuestionInput } from './copy-paper.ts';

/** A start request's body that passed its schema. Timestamps are still RFC 3339 texts. */
export interface StartBody {
  exam: StartExam;
  access: StartAccess;
  questions: readonly QuestionInput[];
  studentInfo?: Optional<Readonly<Record<string, unknown>>>;
  courseAttemptContext?: Optional<CourseContextInput>;
}

export interface StartExam {
  id: string;
  organizationId?: Optional<string>;
  title?: Optional<string>;
  subject?: Optional<string>;
  gradeLevel?: Optional<string | number>;
  status: string;
  deliveryMode?: Optional<string>;
  durationMinutes?: Optional<number>;
  maxAttempts?: Optional<number>;
  openTime?: Optional<string>;
  closeTime?: Optional<string>;
  requiresAccessPassword?: Optional<boolean>;
  shuffleQuestions?: Optional<boolean>;
  shuffleOptions?: Optional<boolean>;
  randomizePerAttempt?: Optional<boolean>;
  showResultMode: ShowResultMode;
  resultsReleasedAt?: Optional<string>;
  createdById?: Optional<string>;
  assignedClassroomIds?: Optional<readonly string[]>;
  resultViewerTeacherIds?: Optional<readonly string[]>;
}

export interface StartAccess {
  assigned?: Optional<boolean>;
  attemptLimit?: Optional<number>;
  passwordVerified?: Optional<boolean>;
  assignmentDueAt?: Optional<string>;
  link?: Optional<StartLink>;
}

export interface StartLink {
  id: string;
  mode: 'LOGIN_REQUIRED' | 'GUEST_ALLOWED';
  active: boolean;
  expiresAt?: Optional<string>;
  studentLimit?: Optional<number>;
}

/** The types are loose on purpose: a rule rejects an incomplete context with its own error code instead of a schema fault. */
export interface CourseContextInput {
  courseId?: unknown;
  courseQuizReferenceId?: unknown;
  lessonId?: unknown;
  studentId?: unknown;
  organizationId?: unknown;
  examId?: unknown;
  validatedBy?: unknown;
  validatedAt?: unknown;
}
