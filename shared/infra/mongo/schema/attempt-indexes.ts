import {
  ATTEMPTS,
  EVENT_ROWS,
  EXAM_ACTS,
  REGRADE_LINES,
  REGRADES,
  RELEASES,
  SEATS,
  TEXT_ROWS,
} from '#infra/mongo/attempt/collections.ts';
import { EXAMS } from '#infra/mongo/attempt/exams.ts';
import { type DeclaredIndex, expiring, plain, unique } from './index-rules.ts';

/** The indexes of attempts, of what belongs to them, and of the exam room. */
export const ATTEMPT_INDEXES: readonly DeclaredIndex[] = [
  // A start key starts one attempt of this student at this exam, for ever. Aliases of a reused attempt are keys as well.
  unique(ATTEMPTS, 'start_key_of_student', { studentId: 1, examId: 1, startKeys: 1 }),
  // A student has at most one open attempt at an exam.
  unique(ATTEMPTS, 'open_attempt_of_student', { studentId: 1, examId: 1 }, { status: 'IN_PROGRESS' }),
  // Attempt numbers have no gaps and no duplicates: two starts that both counted n attempts cannot both become n + 1.
  unique(ATTEMPTS, 'attempt_number_of_student', { studentId: 1, examId: 1, attemptNumber: 1 }),
  plain(ATTEMPTS, 'by_student', { studentId: 1, startedAt: -1 }),
  // The overdue sweep reads open attempts by deadline.
  plain(ATTEMPTS, 'overdue', { status: 1, deadlineAt: 1 }, { status: 'IN_PROGRESS' }),
  // The retention reads graded attempts that have no pseudonym yet, by their submit.
  plain(ATTEMPTS, 'retention', { erasedAt: 1, submittedAt: 1 }, { status: 'GRADED' }),
  // A release walks the attempts of its exam that have not been released, by id.
  plain(ATTEMPTS, 'unreleased', { examId: 1, 'exam.resultsReleasedAt': 1, _id: 1 }),
  // The admin summary counts graded attempts from this index alone, on shards because it contains the shard key. It reads the few others
  // themselves: if they were in this index, each save would rewrite it.
  plain(
    ATTEMPTS,
    'counts_of_graded',
    {
      status: 1,
      submittedBy: 1,
      'tally.linked': 1,
      'tally.keyed': 1,
      'tally.scored': 1,
      'tally.released': 1,
      'tally.questions': 1,
      'tally.answers': 1,
      'tally.graded': 1,
      eventSeq: 1,
      studentId: 1,
    },
    { status: 'GRADED' },
  ),
  // The trace of an exam, and the summary, find the attempts that wait for a grade. An attempt is in this index between its submit and its grade only.
  plain(ATTEMPTS, 'ungraded_of_exam', { examId: 1, _id: 1 }, { status: 'SUBMITTED' }),
  // Operators walk the attempts of an exam by id, which never changes. No update of an attempt writes this index.
  plain(ATTEMPTS, 'of_exam', { examId: 1, _id: 1 }),
  // The same walk over one status. The counts of an exam are answered from this index alone, on shards because it contains the shard key.
  // A start, a submit, a grade and a release write it, and a save does not.
  plain(ATTEMPTS, 'of_exam_by_status', {
    examId: 1,
    status: 1,
    _id: 1,
    deadlineAt: 1,
    submittedAt: 1,
    pendingManualCount: 1,
    'tally.released': 1,
    studentId: 1,
  }),
  // Boards, results and statistics walk an exam by student, and the list of exams counts from this index alone. No save or event writes it.
  plain(ATTEMPTS, 'of_exam_by_student', {
    examId: 1,
    studentId: 1,
    attemptNumber: 1,
    status: 1,
    voidedAt: 1,
    deadlineAt: 1,
    pendingManualCount: 1,
  }),
  // The list of exams, newest first.
  plain(EXAMS, 'newest', { firstStartedAt: -1, _id: -1 }),
  plain(EXAMS, 'of_examiner', { examinerIds: 1, firstStartedAt: -1, _id: -1 }),
  unique(EVENT_ROWS, 'event_order', { attemptId: 1, seq: 1 }),
  plain(TEXT_ROWS, 'by_attempt', { attemptId: 1 }),
  // The newest release of an exam, and the first one above a number.
  plain(RELEASES, 'of_exam', { examId: 1, number: 1 }),
  plain(RELEASES, 'of_student', { studentIds: 1 }),
  // A start reads the time that its student was given; the key of an act for all is null. The export and the erasure of a person read it too.
  plain(EXAM_ACTS, 'of_student', { studentIds: 1, examId: 1, kind: 1 }),
  plain(EXAM_ACTS, 'of_exam', { examId: 1, kind: 1, at: 1, _id: 1 }),
  // Regrades that are applied at once have different numbers, and a grade reads those of its exam in their order.
  unique(REGRADES, 'applied', { examId: 1, number: 1 }, { isApplied: true }),
  plain(REGRADES, 'of_exam', { examId: 1, createdAt: -1, _id: -1 }),
  expiring(REGRADES, 'expired', 'expiresAt', 0),
  plain(REGRADE_LINES, 'of_regrade', { regradeId: 1, attemptId: 1 }),
  plain(REGRADE_LINES, 'of_attempt', { attemptId: 1 }),
  expiring(REGRADE_LINES, 'expired', 'expiresAt', 0),
  // A seat belongs to one student, and a student has one seat.
  unique(SEATS, 'seat', { linkId: 1, seat: 1 }, { numbered: true }),
  unique(SEATS, 'seat_of_student', { linkId: 1, studentId: 1 }),
  // The indexes `of_…` of one field serve the export and the erasure of a person (`personal-fields.ts`).
  plain(SEATS, 'of_student', { studentId: 1 }),
];
