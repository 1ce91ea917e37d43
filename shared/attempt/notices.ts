import { type Attempt, isVoided, ofRound } from './attempt.ts';
import { isErasedAttempt } from './erased.ts';
import { visibilityForStudent } from './visibility.ts';

/** The only kind of outbox row, and its event type in the notification service. */
const GRADE_NOTICE_KIND = 'attempt.grade_released.notification.v1';
export const ATTEMPT_SERVICE = 'attempt-service';
export const ATTEMPT_ENTITY = 'ExamAttempt';
const PAYLOAD_SCHEMA_VERSION = 1;

/** Longer titles are cut. The receiver accepts texts of up to 20,000 characters; a longer one would dead-letter the notice. */
const MAX_TITLE_CHARACTERS = 2_000;

export type NoticeRecipient = 'STUDENT' | 'PARENT';

/** Content of one outbox row. `sourceEventId` is fixed per attempt and recipient, so that no recipient is notified twice. */
export interface GradeNotice {
  sourceEventId: string;
  kind: typeof GRADE_NOTICE_KIND;
  recipient: NoticeRecipient;
  attemptId: string;
  examId: string;
  examTitle: string;
  studentId: string;
  organizationId: string | null;
  /** The release that made the result visible; null if the grade or the release time of the start did. */
  releaseEventId: string | null;
  /** The release time, before which the notice is not sent. Null: it is sent at once. */
  notBefore: Date | null;
  /** The regrade that changed a visible result. Absent for the first announcement. */
  regradeId?: string;
}

/** Cause and release time of a notice. */
type NoticeCause = Pick<GradeNotice, 'releaseEventId' | 'notBefore'>;

type NoticedAttempt = Pick<
  Attempt,
  | '_id'
  | 'examId'
  | 'studentId'
  | 'organizationId'
  | 'status'
  | 'exam'
  | 'releaseEventId'
  | 'erasedAt'
  | 'round'
  | 'voidedAt'
>;

const BY_GRADE: NoticeCause = { releaseEventId: null, notBefore: null };

/**
 * Returns the two rows of an attempt and round, the student's first; none if the student was erased. `noticesOnGrade` and `releaseEffect` decide
 * when to queue them.
 */
export function gradeNotices(
  attempt: Omit<NoticedAttempt, 'status' | 'releaseEventId'>,
  cause: NoticeCause = BY_GRADE,
): GradeNotice[] {
  if (isErasedAttempt(attempt)) return [];
  return (['STUDENT', 'PARENT'] as const).map((recipient) => ({
    sourceEventId: `${attempt._id}:notification:${RECIPIENTS[recipient].idSuffix}${ofRound(attempt)}`,
    kind: GRADE_NOTICE_KIND,
    recipient,
    attemptId: attempt._id,
    examId: attempt.examId,
    examTitle: clip(attempt.exam.title),
    studentId: attempt.studentId,
    organizationId: attempt.organizationId,
    ...cause,
  }));
}

/**
 * Returns the rows of an attempt whose result a regrade has changed, if the student may see the result. Whom a release in the future lets see
 * it gets the notice of that release alone.
 */
export function noticesOnRegrade(attempt: NoticedAttempt, regradeId: string, now: Date): GradeNotice[] {
  return visibilityForStudent(attempt, now).resultVisible ? regradeNotices(attempt, regradeId) : [];
}

/** Returns the rows that announce the result of a regrade, the student's first; none if the student was erased. */
export function regradeNotices(attempt: Parameters<typeof gradeNotices>[0], regradeId: string): GradeNotice[] {
  return gradeNotices(attempt).map((notice) => ({
    ...notice,
    sourceEventId: `${attempt._id}:notification:${RECIPIENTS[notice.recipient].regradeSuffix}:${regradeId}`,
    regradeId,
  }));
}

/** The rows that a restored attempt may owe to one recipient: that of its grade, and that of the newest regrade of its round. */
interface OwedNotices {
  grade: GradeNotice;
  regrade: { notice: GradeNotice; at: Date } | null;
}

/** Returns the rows that a restored attempt may owe. The void has withdrawn them, or the regrade came while the attempt was voided. */
export function noticesOnRestore(attempt: NoticedAttempt & Pick<Attempt, 'scoreHistory'>, now: Date): OwedNotices[] {
  const restored = { ...attempt, voidedAt: null };
  const news = attempt.scoreHistory?.findLast(({ cause, isNews }) => cause === 'REOPEN' || isNews === true);
  const regraded = news?.regradeId == null ? [] : noticesOnRegrade(restored, news.regradeId, now);
  return noticesOnGrade(restored, now).map((grade) => {
    const regrade = regraded.find(({ recipient }) => recipient === grade.recipient);
    return { grade, regrade: news === undefined || regrade === undefined ? null : { notice: regrade, at: news.at } };
  });
}

/**
 * Returns the row to be queued for each recipient, if there is one. `queuedAt` has the rows that exist. The announcement of a grade that was
 * queued after the regrade has told of it.
 */
export function unheardOf(owed: readonly OwedNotices[], queuedAt: ReadonlyMap<string, Date>): GradeNotice[] {
  return owed.flatMap(({ grade, regrade }) => {
    const toldAt = queuedAt.get(grade.sourceEventId);
    if (toldAt === undefined) return [grade];
    if (regrade === null || toldAt.getTime() >= regrade.at.getTime()) return [];
    return queuedAt.has(regrade.notice.sourceEventId) ? [] : [regrade.notice];
  });
}

/**
 * Returns the rows that the grading of an attempt queues. `attempt` is as graded and has the release that binds it.
 * - If the student may see the result without any release: both rows, to be sent at once.
 * - Otherwise, if there is a release time: both rows, to be sent at that time. A future time queues them too, because no
 *   later event would.
 * - Otherwise, and while the attempt is voided: []. If a later closeTime makes the result visible, no row is ever queued.
 */
export function noticesOnGrade(attempt: NoticedAttempt, now: Date): GradeNotice[] {
  const { resultsReleasedAt: notBefore } = attempt.exam;
  const unreleased = { ...attempt, exam: { ...attempt.exam, resultsReleasedAt: null } };
  if (visibilityForStudent(unreleased, now).resultVisible) return gradeNotices(attempt);
  if (attempt.status !== 'GRADED' || notBefore === null || isVoided(attempt)) return [];
  return gradeNotices(attempt, { releaseEventId: attempt.releaseEventId, notBefore });
}

/** Returns true while the notice must wait for its release time. */
export function isEarly({ notBefore }: GradeNotice, now: Date): boolean {
  return notBefore !== null && notBefore.getTime() > now.getTime();
}

/**
 * Returns the body that sends a notice to the notification service. It contains no answer, answer key, access link, e-mail,
 * phone or profile. Fields without a value are omitted.
 */
export function intakeBody(notice: GradeNotice, recipientIds: readonly string[]) {
  const { preferenceType, content } = RECIPIENTS[notice.recipient];
  const isRegrade = notice.regradeId !== undefined;
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
      title: isRegrade ? REGRADED_TITLE : RELEASED_TITLE,
      content: isRegrade ? regradedContent(notice.examTitle) : content(notice.examTitle),
      ...common,
    })),
    payload: {
      schemaVersion: PAYLOAD_SCHEMA_VERSION,
      attemptId: notice.attemptId,
      examId: notice.examId,
      examTitle: notice.examTitle,
      ...(notice.releaseEventId === null ? {} : { releaseEventId: notice.releaseEventId }),
      ...(notice.regradeId === undefined ? {} : { regradeId: notice.regradeId }),
    },
  };
}

const RELEASED_TITLE = 'Kết quả bài thi đã được công bố';
const REGRADED_TITLE = 'Kết quả bài thi đã được cập nhật';
const regradedContent = (examTitle: string) => `Bài thi "${examTitle}" có kết quả mới.`;

const RECIPIENTS = {
  STUDENT: {
    idSuffix: 'grade_released',
    regradeSuffix: 'regraded',
    preferenceType: 'GRADE_RELEASED',
    content: (examTitle: string) => `Bài thi "${examTitle}" đã có kết quả.`,
  },
  PARENT: {
    idSuffix: 'grade_released_parent',
    regradeSuffix: 'regraded_parent',
    preferenceType: 'GRADE_RELEASED_PARENT',
    content: (examTitle: string) => `Bài thi của con bạn "${examTitle}" đã có kết quả.`,
  },
} as const satisfies Record<NoticeRecipient, object>;

/** Cuts a title by code points, so that no surrogate pair is split. */
function clip(title: string): string {
  if (title.length <= MAX_TITLE_CHARACTERS) return title;
  return `${Array.from(title).slice(0, MAX_TITLE_CHARACTERS).join('')}…`;
}
