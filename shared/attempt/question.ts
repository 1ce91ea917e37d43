import { derivedId } from '#shared/kernel/ids.ts';

/** All snapshots of one start, in the order in which they were sent. */
export interface Paper {
  questions: Question[];
}

/** One copied question snapshot. Immutable, and shared by every attempt that copied the same paper. */
export interface Question {
  /** The attempt question's id when the sender gave one; null = made per attempt, see `questionIdAt`. */
  id: string | null;
  examQuestionId: string | null;
  questionId: string;
  questionVersionId: string | null;
  /** The full mark, above zero. */
  score: number;
  type: QuestionType;
  content: string;
  contentText: string;
  /** For a true/false group these are the statements. */
  options: QuestionOption[];
  /** Positions into `options`; null = as they stand. */
  optionOrder: number[] | null;
  scoringRule: ScoringRule;
  answerKey: AnswerKey;
}

/** The kinds of question a paper can hold. */
export const QUESTION_TYPES = [
  'SINGLE_CHOICE',
  'MULTIPLE_CHOICE',
  'TRUE_FALSE_GROUP',
  'SHORT_TEXT',
  'NUMERIC',
  'ESSAY',
] as const;
export type QuestionType = (typeof QUESTION_TYPES)[number];

/** The kind of answer each type of question takes. */
export const ANSWER_KIND = {
  SINGLE_CHOICE: 'selected',
  MULTIPLE_CHOICE: 'selected',
  TRUE_FALSE_GROUP: 'statements',
  SHORT_TEXT: 'text',
  NUMERIC: 'text',
  ESSAY: 'text',
} as const satisfies Record<QuestionType, 'selected' | 'statements' | 'text'>;

export interface QuestionOption {
  id: string;
  label: string;
  content: string;
}

/** How a question is scored. */
export const SCORING_MODES = [
  'EXACT',
  'PARTIAL',
  'THPT_TRUE_FALSE_LADDER',
  'TRUE_FALSE_GROUP',
  'SHORT_TEXT',
  'NUMERIC',
  'MANUAL',
  'ESSAY',
] as const;
export type ScoringMode = (typeof SCORING_MODES)[number];

const BY_HAND: readonly ScoringMode[] = ['MANUAL'];
const CHOICE_MODES: readonly ScoringMode[] = ['EXACT', 'PARTIAL', ...BY_HAND];

/** Which mode fits which type. */
export const MODES_OF_TYPE: Readonly<Record<QuestionType, readonly ScoringMode[]>> = {
  SINGLE_CHOICE: CHOICE_MODES,
  MULTIPLE_CHOICE: CHOICE_MODES,
  TRUE_FALSE_GROUP: ['THPT_TRUE_FALSE_LADDER', 'TRUE_FALSE_GROUP', ...CHOICE_MODES],
  SHORT_TEXT: ['EXACT', 'SHORT_TEXT', 'NUMERIC', ...BY_HAND],
  NUMERIC: ['NUMERIC', 'EXACT', ...BY_HAND],
  ESSAY: ['ESSAY', ...BY_HAND],
};

/** As sent, absent fields left out. Points are on the rule's own scale, whose full mark is `maxScore`. */
export interface ScoringRule {
  mode: ScoringMode;
  maxScore?: number;
  incorrectPenalty?: number;
  minScore?: number;
  tolerance?: number;
  toleranceType?: 'ABSOLUTE' | 'RELATIVE';
  caseSensitive?: boolean;
  ladder?: number[];
}

/** What is right. It never leaves the service towards a student. */
export interface AnswerKey {
  correctOptionIds?: string[];
  statements?: Statement[];
  acceptedTexts?: string[];
  numericAnswers?: { value: number; tolerance?: number }[];
}

interface Statement {
  statementId: string;
  value: boolean;
}

/** Scored by a person or by the AI classifier, never by the grading worker. */
export function isScoredByHand(question: Question): boolean {
  return question.scoringRule.mode === 'MANUAL' || question.scoringRule.mode === 'ESSAY';
}

/** The attempt question's id: the one its sender gave, else one derived from the attempt and the paper index. */
export function questionIdAt(attemptId: string, paperIndex: number, question: Pick<Question, 'id'>): string {
  return question.id ?? derivedId(attemptId, `question:${paperIndex}`);
}

/**
 * The paper index of the question that an answer or handoff names by its questionId or by its id in this attempt;
 * null when the attempt has no such question. The questionId is looked for first, and the names of a paper never
 * meet (`copyPaper`), so the order only saves work.
 */
export function paperIndexOf(attemptId: string, paper: Paper, name: string): number | null {
  const byQuestionId = paper.questions.findIndex((question) => question.questionId === name);
  if (byQuestionId >= 0) return byQuestionId;
  const byId = paper.questions.findIndex((question, index) => questionIdAt(attemptId, index, question) === name);
  return byId >= 0 ? byId : null;
}
