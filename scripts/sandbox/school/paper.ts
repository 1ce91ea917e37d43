import type { ExamRuntime, StartQuestion } from '../../../clients/typescript/src/index.ts';
import { CHOICES, type ChoiceData } from './paper-choices.ts';
import {
  ESSAY,
  type EssayData,
  NUMERIC_QUESTIONS,
  type NumericData,
  TRUE_FALSE_GROUPS,
  type TrueFalseData,
} from './paper-written.ts';

/** Points of one question of each part: 28 × 0.125 + 4 × 1 + 7 × 0.25 + 0.75 = 10. */
const POINTS = { choice: 0.125, trueFalse: 1, numeric: 0.25, essay: 0.75 } as const;

export const ORGANIZATION = 'truong-thpt-demo';
export const TEACHER = 'gv-toan-01';

/**
 * Returns forty questions modelled on the national mathematics examination of 2025: single choice, true/false groups scored by the
 * ladder, short numeric answers, and an essay. Each call returns the same paper.
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

/** Returns an exam as the exam service would describe it: assigned to its class, with one attempt. */
export function examRuntime(
  exam: Pick<ExamRuntime, 'id' | 'title' | 'createdById' | 'organizationId'> & Partial<ExamRuntime>,
): ExamRuntime {
  return {
    subject: 'Toán',
    gradeLevel: '12',
    status: 'PUBLISHED',
    deliveryMode: 'ONLINE',
    durationMinutes: 90,
    maxAttempts: 1,
    showResultMode: 'MANUAL',
    assignedClassroomIds: [],
    resultViewerTeacherIds: [],
    ...exam,
  };
}

/** Returns the exam of the demo. Its results stay hidden until they are released. */
export function mathsExam(id: string): ExamRuntime {
  return examRuntime({
    id,
    organizationId: ORGANIZATION,
    title: 'Thi thử tốt nghiệp THPT 2025 – Môn Toán (đề 40 câu)',
    createdById: TEACHER,
    shuffleOptions: true,
  });
}

const LETTERS = ['A', 'B', 'C', 'D'] as const;
const SMALL_LETTERS = ['a', 'b', 'c', 'd'] as const;

function choiceQuestion(number: number, data: ChoiceData, score: number): StartQuestion {
  return {
    ...heading(number, data.text),
    type: 'SINGLE_CHOICE',
    score,
    options: data.options.map((text, index) => option(LETTERS[index] ?? '', text)),
    scoringRule: { mode: 'EXACT' },
    answerKey: { correctOptionIds: [data.correct] },
  };
}

function trueFalseQuestion(number: number, data: TrueFalseData, score: number): StartQuestion {
  const ids = data.statements.map((_, index) => SMALL_LETTERS[index] ?? '');
  return {
    ...heading(number, data.text),
    type: 'TRUE_FALSE_GROUP',
    score,
    options: data.statements.map(([text], index) => option(ids[index] ?? '', text)),
    scoringRule: { mode: 'THPT_TRUE_FALSE_LADDER' },
    answerKey: { statements: data.statements.map(([, value], index) => ({ statementId: ids[index] ?? '', value })) },
  };
}

function numericQuestion(number: number, data: NumericData, score: number): StartQuestion {
  return {
    ...heading(number, data.text),
    type: 'NUMERIC',
    score,
    options: [],
    scoringRule: { mode: 'NUMERIC', ...(data.tolerance === undefined ? {} : { tolerance: data.tolerance }) },
    answerKey: { numericAnswers: [{ value: Number(data.answer.replace(',', '.')) }] },
  };
}

function essayQuestion(number: number, data: EssayData, score: number): StartQuestion {
  return { ...heading(number, data.text), type: 'ESSAY', score, options: [], scoringRule: { mode: 'ESSAY' } };
}

function heading(number: number, text: string) {
  const code = `toan-2025-c${String(number).padStart(2, '0')}`;
  return {
    questionId: code,
    questionVersionId: `${code}-v1`,
    content: `<p><strong>Câu ${number}.</strong> ${escaped(text)}</p>`,
    contentText: `Câu ${number}. ${text}`,
  };
}

function option(id: string, text: string) {
  return { id, label: id, content: escaped(text) };
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
