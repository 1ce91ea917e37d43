import type { Attempt } from './attempt.ts';
import { visibilityForStudent } from './visibility.ts';

/** The fields a list query has to load: no answers, no events, no paper. */
export type ListedAttempt = Pick<
  Attempt,
  | '_id'
  | 'examId'
  | 'status'
  | 'startedAt'
  | 'submittedAt'
  | 'deadlineAt'
  | 'durationSeconds'
  | 'totalScore'
  | 'correctCount'
  | 'wrongCount'
  | 'exam'
>;

/** One line of the owner's own list. Counts and total are null until the student may see the result. */
export function studentListItem(attempt: ListedAttempt, now: Date) {
  const { exam } = attempt;
  const { hiddenReason, resultVisible } = visibilityForStudent(attempt, now);
  return {
    id: attempt._id,
    examId: attempt.examId,
    status: attempt.status,
    startedAt: attempt.startedAt.toISOString(),
    submittedAt: attempt.submittedAt?.toISOString() ?? null,
    deadlineAt: attempt.deadlineAt?.toISOString() ?? null,
    durationSeconds: attempt.durationSeconds,
    totalScore: resultVisible ? attempt.totalScore : null,
    correctCount: resultVisible ? attempt.correctCount : null,
    wrongCount: resultVisible ? attempt.wrongCount : null,
    resultVisible,
    hiddenReason,
    exam: {
      id: attempt.examId,
      title: exam.title,
      subject: exam.subject,
      gradeLevel: exam.gradeLevel,
      durationMinutes: exam.durationMinutes,
      showResultMode: exam.showResultMode,
      closeTime: exam.closeTime?.toISOString() ?? null,
    },
  };
}
