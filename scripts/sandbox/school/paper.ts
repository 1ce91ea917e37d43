import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { Random } from '#scripts/sandbox/random.ts';
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

/** The question whose key the demo's exam has wrong: its option takes a closed interval for an open one. A regrade corrects the key. */
export const MISPRINT = { questionId: 'toan-2025-c05', optionId: 'A' } as const;

/** Returns the paper with the wrong key of the misprint. */
export function misprinted(questions: readonly StartQuestion[]): StartQuestion[] {
  const { questionId, optionId } = MISPRINT;
  return questions.map((question) =>
    question.questionId === questionId ? { ...question, answerKey: { correctOptionIds: [optionId] } } : question,
  );
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

const OPENING = 'Gọi cạnh đáy của bể là a (m), chiều cao là h (m), với a > 0, h > 0.';

/** The three steps of the solution. The rubric awards points for each; a draft has its right or its wrong version. */
const STEPS = [
  {
    right: 'Từ thể tích a²h = 4 suy ra h = 4/a². Diện tích vật liệu: S(a) = a² + 4ah = a² + 16/a.',
    wrong: 'Từ thể tích a²h = 4 suy ra h = 4/a. Diện tích vật liệu: S(a) = 2a² + 4ah = 2a² + 16.',
  },
  {
    right:
      "S'(a) = 2a − 16/a², S'(a) = 0 khi a³ = 8, tức a = 2. Lập bảng biến thiên, S đạt giá trị nhỏ nhất tại a = 2.",
    wrong: "S'(a) = 4a nên S đồng biến, chọn a nhỏ nhất có thể.",
  },
  {
    right: 'Vậy cạnh đáy bằng 2 m, chiều cao bằng 1 m và diện tích nhỏ nhất là 12 m².',
    wrong: 'Vậy bể có dạng hình lập phương cạnh 1,6 m.',
  },
] as const;

const ESSAY_CRITERIA = [
  { id: 'lap-ham', name: 'Lập hàm diện tích' },
  { id: 'cuc-tri', name: 'Tìm giá trị nhỏ nhất' },
  { id: 'ket-luan', name: 'Kết luận' },
] as const;

/** Returns a draft in which each step is right with probability `chance`. The lower the chance, the earlier the draft may end. */
export function essayDraft(chance: number, random: Random): string {
  const lines: string[] = [OPENING];
  for (const step of STEPS) {
    lines.push(random.chance(chance) ? step.right : step.wrong);
    if (random.chance((1 - chance) * 0.4)) break;
  }
  return lines.join('\n');
}

/** Returns a rubric with an equal share of the points for each step. */
export function essayRubric(maxScore: number) {
  return ESSAY_CRITERIA.map((criterion) => ({ ...criterion, maxScore: maxScore / ESSAY_CRITERIA.length }));
}

/** Grades an essay by the rubric, for a cluster without a classifier. A step earns all of its points or none. */
export function gradeEssay(text: string, maxScore: number) {
  const criteria = essayRubric(maxScore).map((criterion, index) => {
    const isRight = text.includes(STEPS[index]?.right ?? '');
    return { ...criterion, score: isRight ? criterion.maxScore : 0 };
  });
  const score = criteria.reduce((sum, criterion) => sum + criterion.score, 0);
  const missing = criteria
    .filter((criterion) => criterion.score === 0)
    .map((criterion) => criterion.name.toLowerCase());
  const feedback =
    missing.length === 0 ? 'Lời giải đầy đủ, trình bày rõ ràng.' : `Cần xem lại bước: ${missing.join(', ')}.`;
  return { score, criteria, feedback };
}
