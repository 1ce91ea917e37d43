import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { ExamRuntime, StartQuestion } from '../../../clients/typescript/src/index.ts';

export const ORGANIZATION = 'truong-thpt-demo';
export const TEACHER = 'gv-toan-01';

/** The questions, each a line of text. Below it: options with a star before the right one; true (+) and false (-) statements; or the number. */
const SOURCE = path.join(import.meta.dirname, 'paper.txt');
/** Points of one question of each part: 28 × 0.125 + 4 × 1 + 7 × 0.25 + 0.75 = 10. */
const POINTS = { choice: 0.125, trueFalse: 1, numeric: 0.25, essay: 0.75 } as const;

/**
 * Returns forty questions modelled on the national mathematics examination of 2025: single choice, true/false groups scored by the
 * ladder, short numeric answers, and an essay. Each call returns the same paper.
 */
export function mathsPaper(): StartQuestion[] {
  const blocks = readFileSync(SOURCE, 'utf8')
    .trimEnd()
    .split(/\n(?! )/);
  return blocks.map((block, index) => {
    const [text = '', ...lines] = block.split('\n').map((line) => line.trim());
    const code = `toan-2025-c${String(index + 1).padStart(2, '0')}`;
    return {
      questionId: code,
      questionVersionId: `${code}-v1`,
      content: `<p><strong>Câu ${index + 1}.</strong> ${escaped(text)}</p>`,
      contentText: `Câu ${index + 1}. ${text}`,
      ...partOf(lines),
    };
  });
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

type Part = Pick<StartQuestion, 'type' | 'score' | 'options' | 'scoringRule' | 'answerKey'>;

/** Returns the part of a question that follows from the lines below its text. */
function partOf(lines: readonly string[]): Part {
  const [first = ''] = lines;
  if (first === '') return { type: 'ESSAY', score: POINTS.essay, options: [], scoringRule: { mode: 'ESSAY' } };
  if (first.startsWith('=')) return numericPart(first.slice(1));
  return /^[+-] /.test(first) ? trueFalsePart(lines) : choicePart(first.split(' | '));
}

function choicePart(marked: readonly string[]): Part {
  return {
    type: 'SINGLE_CHOICE',
    score: POINTS.choice,
    options: marked.map((text, index) => option('ABCD'.charAt(index), text.replace(/^\*/, ''))),
    scoringRule: { mode: 'EXACT' },
    answerKey: { correctOptionIds: ['ABCD'.charAt(marked.findIndex((text) => text.startsWith('*')))] },
  };
}

function trueFalsePart(marked: readonly string[]): Part {
  return {
    type: 'TRUE_FALSE_GROUP',
    score: POINTS.trueFalse,
    options: marked.map((text, index) => option('abcd'.charAt(index), text.slice(2))),
    scoringRule: { mode: 'THPT_TRUE_FALSE_LADDER' },
    answerKey: {
      statements: marked.map((text, index) => ({ statementId: 'abcd'.charAt(index), value: text.startsWith('+') })),
    },
  };
}

/** Returns a question whose answer is one number. A tolerance is absolute; without one the answer is exact. */
function numericPart(written: string): Part {
  const [value = 0, tolerance] = written.split('±').map((text) => Number(text.replace(',', '.')));
  return {
    type: 'NUMERIC',
    score: POINTS.numeric,
    options: [],
    scoringRule: { mode: 'NUMERIC', ...(tolerance === undefined ? {} : { tolerance }) },
    answerKey: { numericAnswers: [{ value }] },
  };
}

function option(id: string, text: string) {
  return { id, label: id, content: escaped(text) };
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
