import { percentOf } from '#shared/kernel/decimal.ts';
import { derivedId } from '#shared/kernel/ids.ts';
import { answerFields } from './answer.ts';
import { type Attempt, type AttemptEvent, answerKeyOf, courseContextOnWire, type StoredAnswer } from './attempt.ts';
import { metadataForReply } from './events.ts';
import { type Paper, type Question, type QuestionOption, questionIdAt } from './question.ts';
import { historyForReply } from './score-history.ts';
import { isExaminer, type Viewer, visibilityFor, visibilityForStudent, voidForReply } from './visibility.ts';

export type AttemptDetail = ReturnType<typeof redactAttempt>;

/**
 * Converts a stored attempt to a reply; there is no other way. The result contains only fields that this viewer may see. It
 * is built field by field, so that a new stored field stays internal until it is added here.
 * `events` are the events to show, ascending. Timestamps are ISO 8601 UTC texts.
 */
export function redactAttempt(
  { attempt, paper, events }: { attempt: Attempt; paper: Paper; events: readonly AttemptEvent[] },
  viewer: Viewer,
  now: Date,
) {
  const showsGrades = visibilityFor(attempt, viewer, now).resultVisible;
  const forExaminer = isExaminer(attempt, viewer);
  return {
    ...headForReply(attempt, viewer, now),
    questions: questionsForReply(attempt, paper, forExaminer),
    answers: answersForReply(placesOf(attempt, paper), attempt.answers, showsGrades),
    events: events.map((event) => eventForReply(attempt._id, event, showsGrades, forExaminer)),
    eventCount: attempt.eventSeq,
    ...(forExaminer ? { scope: scopeForReply(attempt), scoreHistory: historyForReply(attempt) } : {}),
  };
}

/** Returns the members of a detail that stand before its questions. */
export function headForReply(attempt: HeadFacts, viewer: Viewer, now: Date) {
  const visibility = visibilityFor(attempt, viewer, now);
  const showsGrades = visibility.resultVisible;
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
    studentInfo: attempt.studentInfo === null ? null : (JSON.parse(attempt.studentInfo) as Record<string, unknown>),
    courseContext: courseContextOnWire(attempt.courseContext),
    resultVisible: visibility.resultVisible,
    hiddenReason: visibility.hiddenReason,
    ...voidForReply(attempt, viewer),
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
  };
}

/** The fields that the head of a detail shows, or that decide what it shows. */
export type HeadFacts = Omit<
  Attempt,
  | 'answers'
  | 'events'
  | 'eventSeq'
  | 'order'
  | 'optionOrders'
  | 'seed'
  | 'startKeys'
  | 'startLimits'
  | 'stamp'
  | 'tally'
>;

/** Returns the questions in the order of the attempt. They stay the same as long as the attempt exists. */
function questionsForReply(attempt: Attempt, paper: Paper, forExaminer: boolean) {
  return attempt.order.map((paperIndex, position) =>
    questionForReply(attempt, questionAt(attempt, paper, paperIndex, position), forExaminer),
  );
}

/** A place in the order of an attempt: the field of its answer and its question. */
export interface AnswerPlace {
  key: string;
  questionId: string;
}

/** Returns the places of an attempt, in its order. */
export function placesOf(attempt: Pick<Attempt, '_id' | 'order'>, paper: Paper): AnswerPlace[] {
  return attempt.order.map((paperIndex, position) => {
    const { question } = questionAt(attempt, paper, paperIndex, position);
    return { key: answerKeyOf(paperIndex), questionId: question.questionId };
  });
}

/** Returns the stored answers in the order of the attempt. */
export function answersForReply(places: readonly AnswerPlace[], answers: Attempt['answers'], showsGrades: boolean) {
  return places.flatMap((place) => {
    const stored = answers[place.key];
    return stored === undefined ? [] : [answerForReply(place, stored, showsGrades)];
  });
}

/** Returns the teacher scope, for examiners only, because it names classrooms and other teachers. */
function scopeForReply({ scope }: Attempt) {
  return {
    createdById: scope.createdById,
    assignedClassroomIds: scope.assignedClassroomIds,
    resultViewerTeacherIds: scope.resultViewerTeacherIds,
  };
}

export interface PositionedQuestion {
  question: Question;
  paperIndex: number;
  orderIndex: number;
}

/** Returns a question with its position, which counts from 0 in the attempt's order. An `orderIndex` belongs to the position. */
export function questionAt(
  attempt: Pick<Attempt, '_id'>,
  paper: Paper,
  paperIndex: number,
  position: number,
): PositionedQuestion {
  const question = paper.questions[paperIndex];
  if (question === undefined) throw new Error(`attempt ${attempt._id} has no question ${paperIndex} in its paper`);
  return { question, paperIndex, orderIndex: paper.orderIndexes?.[position] ?? position };
}

/**
 * Returns a question for a reply. Only examiners receive the answer key and the options in their authored order, in every
 * status of the attempt. Other viewers must not learn that order, because it may list the correct option first.
 */
export function questionForReply(attempt: Attempt, placed: PositionedQuestion, forExaminer: boolean) {
  const { question } = placed;
  const { id, orderIndex, options, optionOrder } = ownPartOf(attempt, placed);
  return {
    id,
    examQuestionId: question.examQuestionId,
    questionId: question.questionId,
    questionVersionId: question.questionVersionId,
    orderIndex,
    score: question.score,
    type: question.type,
    content: question.content,
    contentText: question.contentText,
    options: forExaminer ? question.options : options,
    optionOrder,
    scoringRule: question.scoringRule,
    ...(forExaminer ? { answerKey: question.answerKey } : {}),
  };
}

/** Returns the members of a question that differ between the attempts of an exam, as a student sees them. */
export function ownPartOf(attempt: Attempt, { question, paperIndex, orderIndex }: PositionedQuestion) {
  const options = optionsInOrder(question, attempt.optionOrders[paperIndex] ?? []);
  const id = questionIdAt(attempt, paperIndex, question);
  return { id, orderIndex, options, optionOrder: options.map((option) => option.id) };
}

function optionsInOrder({ questionId, options, optionOrder }: Question, shuffled: readonly number[]): QuestionOption[] {
  const positions = shuffled.length > 0 ? shuffled : (optionOrder ?? options.keys());
  return Array.from(positions, (position) => {
    const option = options[position];
    if (option === undefined) throw new Error(`question ${questionId} has no option at ${position}`);
    return option;
  });
}

/** Returns one stored answer for a reply; a version conflict also contains it. */
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

/** Returns what a client needs after a save: the answer, and how long the attempt is open. Grades stay hidden until its end. */
export function savedAnswer(
  attempt: Pick<Attempt, '_id' | 'status' | 'deadlineAt'>,
  question: Pick<Question, 'questionId'>,
  stored: StoredAnswer,
  now: Date,
) {
  return {
    id: attempt._id,
    status: attempt.status,
    deadlineAt: isoOf(attempt.deadlineAt),
    serverTime: now.toISOString(),
    answer: answerForReply(question, stored, false),
  };
}

type EventReply = ReturnType<typeof eventForReply>;

/** Returns an event as a reply shows it. Unless `showsGrades`, its metadata contains no grade; only examiners see who acted, and why. */
export function eventForReply(attemptId: string, event: AttemptEvent, showsGrades: boolean, forExaminer = false) {
  return {
    id: derivedId(attemptId, `event:${event.seq}`),
    attemptId,
    type: event.type,
    metadata: metadataForReply(event, showsGrades, forExaminer),
    createdAt: event.createdAt.toISOString(),
  };
}

function isoOf(date: Date | null): string | null {
  return date === null ? null : date.toISOString();
}

/** Returns the event log for its own route. It hides the same metadata as the detail. */
export function redactEvents(
  attempt: Attempt,
  events: readonly AttemptEvent[],
  viewer: Viewer,
  now: Date,
): EventReply[] {
  const showsGrades = visibilityFor(attempt, viewer, now).resultVisible;
  const forExaminer = isExaminer(attempt, viewer);
  return events.map((event) => eventForReply(attempt._id, event, showsGrades, forExaminer));
}

/**
 * Returns the body of a result read. It is made from the redacted detail alone, so that it cannot show hidden fields.
 * scorePercent = totalScore / Σ question scores × 100, unrounded; null while the total is hidden or missing.
 */
export function resultOf(detail: AttemptDetail): { attempt: AttemptDetail; scorePercent: number | null } {
  const scorePercent = detail.totalScore === null ? null : percentOf(detail.totalScore, detail.maxScore);
  return { attempt: detail, scorePercent };
}

/** The fields that a list query must load; answers, events and paper are not needed. */
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
  | 'voidedAt'
>;

/** Returns one line of a student's own list. Counts and total are null until the student may see the result. */
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
