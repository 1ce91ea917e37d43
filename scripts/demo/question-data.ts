import type { StartQuestion } from '#shared/generated/attempt.ts';

/** Four options in the order in which they are printed, and the letter of the right one. */
export interface ChoiceData {
  text: string;
  options: readonly [string, string, string, string];
  correct: 'A' | 'B' | 'C' | 'D';
}

/** A common stem and four statements to be judged. */
export interface TrueFalseData {
  text: string;
  statements: readonly [Judged, Judged, Judged, Judged];
}

type Judged = readonly [statement: string, value: boolean];

/** A question whose answer is one number, as a student writes it. `tolerance` is absolute; absent = exact. */
export interface NumericData {
  text: string;
  answer: string;
  tolerance?: number;
}

export interface EssayData {
  text: string;
}

const LETTERS = ['A', 'B', 'C', 'D'] as const;
const SMALL_LETTERS = ['a', 'b', 'c', 'd'] as const;

export function choiceQuestion(number: number, data: ChoiceData, score: number): StartQuestion {
  return {
    ...heading(number, data.text),
    type: 'SINGLE_CHOICE',
    score,
    options: data.options.map((text, index) => option(LETTERS[index] ?? '', text)),
    scoringRule: { mode: 'EXACT' },
    answerKey: { correctOptionIds: [data.correct] },
  };
}

export function trueFalseQuestion(number: number, data: TrueFalseData, score: number): StartQuestion {
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

export function numericQuestion(number: number, data: NumericData, score: number): StartQuestion {
  return {
    ...heading(number, data.text),
    type: 'NUMERIC',
    score,
    options: [],
    scoringRule: { mode: 'NUMERIC', ...(data.tolerance === undefined ? {} : { tolerance: data.tolerance }) },
    answerKey: { numericAnswers: [{ value: Number(data.answer.replace(',', '.')) }] },
  };
}

export function essayQuestion(number: number, data: EssayData, score: number): StartQuestion {
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
