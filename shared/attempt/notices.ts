import type { Attempt } from './attempt.ts';
import { visibilityForStudent } from './visibility.ts';

/** The outbox's only kind, and the event type under which the notification service receives it. */
const GRADE_NOTICE_KIND = 'attempt.grade_released.notification.v1';
export const ATTEMPT_SERVICE = 'attempt-service';
export const ATTEMPT_ENTITY = 'ExamAttempt';
const PAYLOAD_SCHEMA_VERSION = 1;

/** The receiver takes texts up to 20,000 characters; a title past this would end its notice as a dead letter. */
const MAX_TITLE_CHARACTERS = 2_000;

export type NoticeRecipient = 'STUDENT' | 'PARENT';

/** What one outbox row says. `sourceEventId` never changes for an attempt, so no recipient is told twice. */
export interface GradeNotice {
  sourceEventId: string;
  kind: typeof GRADE_NOTICE_KIND;
  recipient: NoticeRecipient;
  attemptId: string;
  examId: string;
  examTitle: string;
  studentId: string;
  organizationId: string | null;
  /** The release that made the result visible, as provenance; null when the grade itself did. */
  releaseEventId: string | null;
}

type NoticedAttempt = Pick<Attempt, '_id' | 'examId' | 'studentId' | 'organizationId' | 'status' | 'exam'>;

/** The two rows of an attempt, the student's first. When they are queued is `noticesOnGrade` and `releaseEffect`. */
export function gradeNotices(attempt: Omit<NoticedAttempt, 'status'>, releaseEventId: string | null): GradeNotice[] {
  return (['STUDENT', 'PARENT'] as const).map((recipient) => ({
    sourceEventId: `${attempt._id}:notification:${RECIPIENTS[recipient].idSuffix}`,
    kind: GRADE_NOTICE_KIND,
    recipient,
    attemptId: attempt._id,
    examId: attempt.examId,
    examTitle: clip(attempt.exam.title),
    studentId: attempt.studentId,
    organizationId: attempt.organizationId,
    releaseEventId,
  }));
}

/**
 * What the grading of an attempt queues: both rows when the student may see the result at that instant, none while
 * it is hidden. A result that a later closeTime makes visible all by itself queues nothing, ever. `attempt` is the
 * attempt as graded, a remembered release already copied onto it; `releaseEventId` names that release.
 */
export function noticesOnGrade(attempt: NoticedAttempt, releaseEventId: string | null, now: Date): GradeNotice[] {
  return visibilityForStudent(attempt, now).resultVisible ? gradeNotices(attempt, releaseEventId) : [];
}

/**
 * The notification service's intake body for a notice. Names no answer, key, access link, e-mail, phone or profile;
 * a field without a value is left out.
 */
export function intakeBody(notice: GradeNotice, recipientIds: readonly string[]) {
  const { preferenceType, title, content } = RECIPIENTS[notice.recipient];
  const common = {
    preferenceType,
    entity: ATTEMPT_ENTITY,
    entityId: notice.attemptId,
    ...(notice.organizationId === null ? {} : { organizationId: notice.organizationId }),
  };
  return {
    sourceService: ATTEMPT_SERVICE,
    sourceEventId: notice.sourceEventId,
    type: notice.kind,
    ...common,
    targetUserIds: [...recipientIds],
    notifications: recipientIds.map((userId) => ({
      userId,
      type: preferenceType,
      title,
      content: content(notice.examTitle),
      ...common,
    })),
    payload: {
      schemaVersion: PAYLOAD_SCHEMA_VERSION,
      attemptId: notice.attemptId,
      examId: notice.examId,
      examTitle: notice.examTitle,
      ...(notice.releaseEventId === null ? {} : { releaseEventId: notice.releaseEventId }),
    },
  };
}

const RECIPIENTS = {
  STUDENT: {
    idSuffix: 'grade_released',
    preferenceType: 'GRADE_RELEASED',
    title: 'Kết quả bài thi đã được công bố',
    content: (examTitle: string) => `Bài thi "${examTitle}" đã có kết quả.`,
  },
  PARENT: {
    idSuffix: 'grade_released_parent',
    preferenceType: 'GRADE_RELEASED_PARENT',
    title: 'Kết quả bài thi đã được công bố',
    content: (examTitle: string) => `Bài thi của con bạn "${examTitle}" đã có kết quả.`,
  },
} as const satisfies Record<NoticeRecipient, object>;

/** By code points, so that no letter is cut in two. */
function clip(title: string): string {
  if (title.length <= MAX_TITLE_CHARACTERS) return title;
  return `${Array.from(title).slice(0, MAX_TITLE_CHARACTERS).join('')}…`;
}
