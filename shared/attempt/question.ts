import { derivedId } from '#shared/kernel/ids.ts';
import type { Attempt } from './attempt.ts';

/** All question snapshots of one start, in the order of the paper. */
export interface Paper {
  questions: Question[];
  /**
   * The sender's own numbers, ascending, if every question has a distinct one. They number the places of an attempt in
   * its own order, whichever question is there. If absent, places are numbered 0 … n − 1.
   */
  orderIndexes?: number[];
}

/** One copied question snapshot. It is immutable and shared by every attempt that copied the same paper. */
export interface Question {
  /** The attempt question's id if the sender set one. If null, each attempt derives its own, see `questionIdAt`. */
  id: string | null;
  examQuestionId: string | null;
  questionId: string;
  questionVersionId: string | null;
  /** The full mark. A question of 0 points is practice: it changes no total and is counted only while its grade is pending. */
  score: number;
  /** The type as sent: one of `QUESTION_TYPES`, or another name, for which `ruleTypeOf` returns the rules. */
  type: string;
  content: string;
  contentText: string;
  /** In a true/false group, the options are the statements. */
  options: QuestionOption[];
  /** Positions in `options`; null means the order of `options`. */
  optionOrder: number[] | null;
  scoringRule: ScoringRule;
  answerKey: AnswerKey;
  /** Set by a correction alone, and never part of a stored paper. */
  award?: Award;
}

/** A correction that gives every student the full mark, or that takes the question out of totals and counts. */
export type Award = 'FULL' | 'EXCLUDE';

/** The question types that have rules of their own. */
export const QUESTION_TYPES = [
  'SINGLE_CHOICE',
  'MULTIPLE_CHOICE',
  'TRUE_FALSE_GROUP',
  'SHORT_TEXT',
  'NUMERIC',
  'ESSAY',
] as const;
export type QuestionType = (typeof QUESTION_TYPES)[number];

/** The kind of answer that each question type accepts. */
export const ANSWER_KIND = {
  SINGLE_CHOICE: 'selected',
  MULTIPLE_CHOICE: 'selected',
  TRUE_FALSE_GROUP: 'statements',
  SHORT_TEXT: 'text',
  NUMERIC: 'text',
  ESSAY: 'text',
} as const satisfies Record<QuestionType, 'selected' | 'statements' | 'text'>;

export type AnswerKind = (typeof ANSWER_KIND)[QuestionType];

export interface QuestionOption {
  id: string;
  label: string;
  content: string;
}

/** Scoring modes of a question. */
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

/** The modes that fit each type. */
const MODES_OF_TYPE: Readonly<Record<QuestionType, readonly ScoringMode[]>> = {
  SINGLE_CHOICE: CHOICE_MODES,
  MULTIPLE_CHOICE: CHOICE_MODES,
  TRUE_FALSE_GROUP: ['THPT_TRUE_FALSE_LADDER', 'TRUE_FALSE_GROUP', ...CHOICE_MODES],
  SHORT_TEXT: ['EXACT', 'SHORT_TEXT', 'NUMERIC', ...BY_HAND],
  NUMERIC: ['NUMERIC', 'EXACT', ...BY_HAND],
  ESSAY: ['ESSAY', ...BY_HAND],
};

/** Returns true if the mode can score the type. An unknown type follows the rules of its mode, so every mode fits it. */
export function modeFits({ type, scoringRule }: Pick<Question, 'type' | 'scoringRule'>): boolean {
  return !isKnownType(type) || MODES_OF_TYPE[type].includes(scoringRule.mode);
}

function isKnownType(type: string): type is QuestionType {
  return (QUESTION_TYPES as readonly string[]).includes(type);
}

/**
 * Returns the type whose rules a question follows: its own type if known, else the type that its mode implies. EXACT and
 * PARTIAL imply a choice if the question has options, else a text.
 */
export function ruleTypeOf(question: {
  type: string;
  scoringRule: { mode: ScoringMode };
  options: readonly unknown[];
}): QuestionType {
  if (isKnownType(question.type)) return question.type;
  switch (question.scoringRule.mode) {
    case 'THPT_TRUE_FALSE_LADDER':
    case 'TRUE_FALSE_GROUP':
      return 'TRUE_FALSE_GROUP';
    case 'EXACT':
    case 'PARTIAL':
      return question.options.length > 0 ? 'MULTIPLE_CHOICE' : 'SHORT_TEXT';
    case 'SHORT_TEXT':
      return 'SHORT_TEXT';
    case 'NUMERIC':
      return 'NUMERIC';
    case 'MANUAL':
    case 'ESSAY':
      return 'ESSAY';
  }
}

/** A scoring rule as sent, without absent fields. Its points are on the rule's own scale, whose full mark is `maxScore`. */
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

/** The correct answers of a question. They are never sent to a student. */
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

/** Returns true if a person or the AI classifier scores the question, and neither the grading worker nor a correction. */
export function isScoredByHand(question: Question): boolean {
  if (question.award !== undefined) return false;
  return question.scoringRule.mode === 'MANUAL' || question.scoringRule.mode === 'ESSAY';
}

/** Facts of an attempt from which the ids of its questions derive. */
export type IdFacts = Pick<Attempt, '_id' | 'seed'>;

/**
 * Returns the attempt question's id: the sender's id, else one derived from the attempt, its secret seed and the paper index. Without the
 * seed, a student could compute the id of each index, and find the authored order of shuffled questions.
 */
export function questionIdAt({ _id, seed }: IdFacts, paperIndex: number, question: Pick<Question, 'id'>): string {
  return question.id ?? derivedId(_id, `question:${seed}:${paperIndex}`);
}

/**
 * Returns the paper index of the question with this questionId or with this id in the attempt, or null if it does not exist.
 * The names of a paper are unambiguous (`copyPaper`), so searching by questionId first only saves work.
 */
export function paperIndexOf(attempt: IdFacts, paper: Paper, name: string): number | null {
  const byQuestionId = paper.questions.findIndex((question) => question.questionId === name);
  if (byQuestionId >= 0) return byQuestionId;
  const byId = paper.questions.findIndex((question, index) => questionIdAt(attempt, index, question) === name);
  return byId >= 0 ? byId : null;
}
