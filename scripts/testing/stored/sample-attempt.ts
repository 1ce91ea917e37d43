import type { Attempt, StoredAnswer } from '#shared/attempt/attempt.ts';
import { attemptEvent, startMetadata } from '#shared/attempt/events.ts';
import type { Paper, Question } from '#shared/attempt/question.ts';

/** Returns a single-choice question of one point with the options a, b and c; a is right. */
export function sampleQuestion(overrides: Partial<Question> = {}): Question {
  return {
    id: null,
    examQuestionId: null,
    questionId: 'question-1',
    questionVersionId: null,
    score: 1,
    type: 'SINGLE_CHOICE',
    content: '<p>?</p>',
    contentText: '?',
    options: sampleOptions('a', 'b', 'c'),
    optionOrder: null,
    scoringRule: { mode: 'EXACT' },
    answerKey: { correctOptionIds: ['a'] },
    ...overrides,
  };
}

export function sampleOptions(...ids: string[]): Question['options'] {
  return ids.map((id) => ({ id, label: id.toUpperCase(), content: `option ${id}` }));
}

/** Returns a paper; questions without an id of their own are named question-1, question-2, … */
export function samplePaper(...questions: Partial<Question>[]): Paper {
  return {
    questions: questions.map((question, index) => sampleQuestion({ questionId: `question-${index + 1}`, ...question })),
  };
}

/** Returns a stored answer without a grade; `overrides` adds its content. */
export function sampleAnswer(overrides: Partial<StoredAnswer>): StoredAnswer {
  return {
    serverVersion: 1,
    clientVersion: 0,
    bytes: 20,
    updatedAt: new Date('2026-05-04T03:10:00.000Z'),
    isCorrect: null,
    score: null,
    ...overrides,
  };
}

/** Returns an attempt of student-1 at exam-1, in progress since 03:00 UTC, with one hour and results visible at once. */
export function sampleAttempt(overrides: Partial<Attempt> = {}): Attempt {
  const startedAt = new Date('2026-05-04T03:00:00.000Z');
  return {
    _id: '019f0000-0000-7000-8000-000000000001',
    v: 1,
    examId: 'exam-1',
    studentId: 'student-1',
    organizationId: 'org-1',
    accessLinkId: null,
    attemptNumber: 1,
    status: 'IN_PROGRESS',
    startedAt,
    submittedAt: null,
    deadlineAt: new Date('2026-05-04T04:00:00.000Z'),
    durationSeconds: null,
    submittedBy: null,
    startKeys: ['key-1'],
    studentInfo: null,
    courseContext: null,
    exam: {
      title: 'Toán 12',
      subject: 'Toán',
      gradeLevel: '12',
      status: 'PUBLISHED',
      durationMinutes: 60,
      showResultMode: 'IMMEDIATE',
      closeTime: null,
      resultsReleasedAt: null,
    },
    scope: { createdById: 'teacher-1', assignedClassroomIds: ['class-1'], resultViewerTeacherIds: ['teacher-2'] },
    paperId: 'paper-1',
    order: [0],
    optionOrders: [],
    seed: 'seed-1',
    maxScore: 1,
    answers: {},
    events: [
      attemptEvent(1, 'START', startMetadata({ accessLinkId: null, idempotencyHeader: 'idempotency-key' }), startedAt),
    ],
    eventSeq: 1,
    clientEvents: 0,
    answerBytes: 0,
    releasesSeen: 0,
    releaseEventId: null,
    totalScore: null,
    correctCount: null,
    wrongCount: null,
    pendingManualCount: null,
    tally: { linked: false, keyed: true, scored: false, released: false, questions: 1, answers: 0, graded: 0 },
    stamp: 'stamp-1',
    ...overrides,
  };
}
