import { percentOf } from '#shared/kernel/decimal.ts';
import { derivedId } from '#shared/kernel/ids.ts';
import { answerFields } from './answer.ts';
import { type Attempt, type AttemptEvent, answerKeyOf, courseContextOnWire, type StoredAnswer } from './attempt.ts';
import { visibleMetadata } from './events.ts';
import { type Paper, type Question, questionIdAt } from './question.ts';
import { isExaminer, type Viewer, visibilityFor, visibilityForStudent } from './visibility.ts';

export type AttemptDetail = ReturnType<typeof redactAttempt>;

/**
 * The one way from a stored attempt to a reply. What this viewer may not see is not in the result: it is built
 * field by field, so that a field added to the store stays inside until someone names it here.
 * `events` are those to show, ascending. Timestamps are ISO 8601 UTC texts.
 */
export function redactAttempt(
  { attempt, paper, events }: { attempt: Attempt; paper: Paper; events: readonly AttemptEvent[] },
  viewer: Viewer,
  now: Date,
) {
  const visibility = visibilityFor(attempt, viewer, now);
  const showsGrades = visibility.resultVisible;
  const places = attempt.order.map((paperIndex, orderIndex) => placeOf(attempt, paper, paperIndex, orderIndex));
  return {
    id: attempt._id,
    examId: attempt.examId,
    studentId: attempt.studentId,
    organizationId: attempt.organizationId,
    accessLinkId: attempt.accessLinkId,
    attemptNumber: attempt.attemptNumber,
    status: attempt.status,
    startedAt: attempt.startedAt.toISOString(),
    submittedAt: isoOf(attempt.submittedAt),
    deadlineAt: isoOf(attempt.deadlineAt),
    durationSeconds: attempt.durationSeconds,
    submittedBy: attempt.submittedBy,
    totalScore: showsGrades ? attempt.totalScore : null,
    maxScore: attempt.maxScore,
    correctCount: showsGrades ? attempt.correctCount : null,
    wrongCount: showsGrades ? attempt.wrongCount : null,
    pendingManualCount: showsGrades ? attempt.pendingManualCount : null,
    studentInfo: attempt.studentInfo,
    courseContext: courseContextOnWire(attempt.courseContext),
    resultVisible: visibility.resultVisible,
    hiddenReason: visibility.hiddenReason,
    serverTime: now.toISOString(),
    exam: {
      id: attempt.examId,
      title: attempt.exam.title,
      subject: attempt.exam.subject,
      gradeLevel: attempt.exam.gradeLevel,
      status: attempt.exam.status,
      durationMinutes: attempt.exam.durationMinutes,
      showResultMode: attempt.exam.showResultMode,
      closeTime: isoOf(attempt.exam.closeTime),
      resultsReleasedAt: isoOf(attempt.exam.resultsReleasedAt),
    },
    questions: places.map((place) => questionForReply(attempt, place, isExaminer(attempt, viewer))),
    answers: places.flatMap(({ paperIndex, question }) => {
      const stored = attempt.answers[answerKeyOf(paperIndex)];
      return stored === undefined ? [] : [answerForReply(question, stored, showsGrades)];
    }),
    events: events.map((event) => eventForReply(attempt._id, event, showsGrades)),
    eventCount: attempt.eventSeq,
  };
}

interface Place {
  question: Question;
  paperIndex: number;
  orderIndex: number;
}

function placeOf(attempt: Attempt, paper: Paper, paperIndex: number, orderIndex: number): Place {
  const question = paper.questions[paperIndex];
  if (question === undefined) throw new Error(`attempt ${attempt._id} has no question ${paperIndex} in its paper`);
  return { question, paperIndex, orderIndex };
}

/** The key goes to examiners only, in every state; a student never receives it, in none. */
function questionForReply(attempt: Attempt, { question, paperIndex, orderIndex }: Place, showsKey: boolean) {
  return {
    id: questionIdAt(attempt._id, paperIndex, question),
    examQuestionId: question.examQuestionId,
    questionId: question.questionId,
    questionVersionId: question.questionVersionId,
    orderIndex,
    score: question.score,
    type: question.type,
    content: question.content,
    contentText: question.contentText,
    options: question.options,
    optionOrder: optionOrder(question, attempt.optionOrders[paperIndex] ?? []),
    scoringRule: question.scoringRule,
    ...(showsKey ? { answerKey: question.answerKey } : {}),
  };
}

function optionOrder(question: Question, shuffled: readonly number[]): string[] {
  const ids = question.options.map((option) => option.id);
  const positions = shuffled.length > 0 ? shuffled : (question.optionOrder ?? ids.keys());
  return Array.from(positions, (position) => {
    const id = ids[position];
    if (id === undefined) throw new Error(`question ${question.questionId} has no option at ${position}`);
    return id;
  });
}

/** One stored answer, also the payload of a version conflict. */
export function answerForReply(question: Pick<Question, 'questionId'>, stored: StoredAnswer, showsGrades: boolean) {
  return {
    questionId: question.questionId,
    answer: answerFields(stored),
    isCorrect: showsGrades ? stored.isCorrect : null,
    score: showsGrades ? stored.score : null,
    serverVersion: stored.serverVersion,
    clientVersion: stored.clientVersion,
    updatedAt: stored.updatedAt.toISOString(),
  };
}

type EventReply = ReturnType<typeof eventForReply>;

export function eventForReply(attemptId: string, event: AttemptEvent, showsGrades: boolean) {
  return {
    id: derivedId(attemptId, `event:${event.seq}`),
    attemptId,
    type: event.type,
    metadata: visibleMetadata(event, showsGrades),
    createdAt: event.createdAt.toISOString(),
  };
}

function isoOf(date: Date | null): string | null {
  return date === null ? null : date.toISOString();
}

/** The event log alone, for its own route; hides what the detail would hide. */
export function redactEvents(
  attempt: Attempt,
  events: readonly AttemptEvent[],
  viewer: Viewer,
  now: Date,
): EventReply[] {
  const showsGrades = visibilityFor(attempt, viewer, now).resultVisible;
  return events.map((event) => eventForReply(attempt._id, event, showsGrades));
}

/**
 * The body of a result read, made from the redacted detail and from nothing else, so that it cannot show what the
 * detail hides. scorePercent = totalScore / Σ question scores × 100, unrounded; null while there is no total to see.
 */
export function resultOf(detail: AttemptDetail): { attempt: AttemptDetail; scorePercent: number | null } {
  const scorePercent = detail.totalScore === null ? null : percentOf(detail.totalScore, detail.maxScore);
  return { attempt: detail, scorePercent };
}

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
    submittedAt: isoOf(attempt.submittedAt),
    deadlineAt: isoOf(attempt.deadlineAt),
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
      closeTime: isoOf(exam.closeTime),
    },
  };
}
