import type { ExamRuntime, StartQuestion } from '#shared/generated/attempt.ts';
import { CHOICES } from './paper-choices.ts';
import { ESSAY, NUMERIC_QUESTIONS, TRUE_FALSE_GROUPS } from './paper-written.ts';
import { choiceQuestion, essayQuestion, numericQuestion, trueFalseQuestion } from './question-data.ts';

/** Points of one question of each part: 28 × 0.125 + 4 × 1 + 7 × 0.25 + 0.75 = 10. */
const POINTS = { choice: 0.125, trueFalse: 1, numeric: 0.25, essay: 0.75 } as const;

export const ORGANIZATION = 'truong-thpt-demo';
export const TEACHER = 'gv-toan-01';

/**
 * Forty questions in the spirit of the national mathematics examination of 2025: single choice, true/false groups
 * with its ladder, short numeric answers, and an essay. Each call makes the same paper.
 */
export function mathsPaper(): StartQuestion[] {
  let number = 0;
  const next = () => ++number;
  return [
    ...CHOICES.map((data) => choiceQuestion(next(), data, POINTS.choice)),
    ...TRUE_FALSE_GROUPS.map((data) => trueFalseQuestion(next(), data, POINTS.trueFalse)),
    ...NUMERIC_QUESTIONS.map((data) => numericQuestion(next(), data, POINTS.numeric)),
    essayQuestion(next(), ESSAY, POINTS.essay),
  ];
}

/** The exam as the exam service would describe it. Results stay hidden until they are released. */
export function mathsExam(examId: string): ExamRuntime {
  return {
    id: examId,
    organizationId: ORGANIZATION,
    title: 'Thi thử tốt nghiệp THPT 2025 – Môn Toán (đề 40 câu)',
    subject: 'Toán',
    gradeLevel: '12',
    status: 'PUBLISHED',
    deliveryMode: 'ONLINE',
    durationMinutes: 90,
    maxAttempts: 1,
    requiresAccessPassword: false,
    shuffleQuestions: false,
    shuffleOptions: true,
    randomizePerAttempt: false,
    showResultMode: 'MANUAL',
    createdById: TEACHER,
    assignedClassroomIds: [],
    resultViewerTeacherIds: [],
  };
}
