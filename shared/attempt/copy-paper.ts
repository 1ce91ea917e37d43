import type { FaultDetail, Rejection } from '#shared/kernel/errors.ts';
import type { Optional } from '#shared/kernel/json.ts';
import type { Pieces } from '#shared/kernel/pieces.ts';
import {
  ANSWER_KIND,
  type AnswerKey,
  type Paper,
  type Question,
  type QuestionOption,
  ruleTypeOf,
  type ScoringMode,
  type ScoringRule,
} from './question.ts';
import { questionFaults, totalsFaults } from './question-faults.ts';

/** One element of a start's `questions`, which passed its schema. Fields that are not named here are never copied. */
export interface QuestionInput {
  id?: Optional<string>;
  examQuestionId?: Optional<string>;
  questionId: string;
  questionVersionId?: Optional<string>;
  orderIndex?: Optional<number>;
  score: number;
  type: string;
  content?: Optional<string>;
  contentText?: Optional<string>;
  options?: Optional<readonly OptionInput[]>;
  optionOrder?: Optional<readonly string[]>;
  scoringRule?: Optional<ScoringRuleInput>;
  answerKey?: Optional<AnswerKeyInput>;
}

interface OptionInput {
  id: string;
  label?: Optional<string>;
  content?: Optional<string>;
  isCorrect?: Optional<boolean>;
}

export interface ScoringRuleInput {
  mode: ScoringMode;
  maxScore?: Optional<number>;
  incorrectPenalty?: Optional<number>;
  minScore?: Optional<number>;
  tolerance?: Optional<number>;
  toleranceType?: Optional<'ABSOLUTE' | 'RELATIVE'>;
  caseSensitive?: Optional<boolean>;
  ladder?: Optional<readonly number[]>;
}

export interface AnswerKeyInput {
  correctOptionIds?: Optional<readonly string[]>;
  statements?: Optional<readonly { statementId: string; value: boolean }[]>;
  acceptedTexts?: Optional<readonly string[]>;
  numericAnswers?: Optional<readonly { value: number; tolerance?: Optional<number> }[]>;
}

/**
 * Copies the question snapshots of a start field by field; additional fields of a producer are dropped. Rejects the start
 * with every fault of every question at once (paths as `/questions/3/answerKey/correctOptionIds`). A paper that cannot be
 * graded must be refused before a student sits it.
 */
export function* copyPaper(questions: readonly QuestionInput[]): Pieces<{ paper: Paper } | Rejection> {
  if (questions.length === 0) {
    return { rejected: 'VALIDATION_FAILED', details: [{ path: '/questions', message: 'at least one is required' }] };
  }
  const { copies, details } = yield* copyQuestions([...questions.entries()]);
  if (details.length === 0) details.push(...totalsFaults(copies));
  if (details.length > 0) return { rejected: 'VALIDATION_FAILED', details };
  return { paper: inSentOrder(copies, questions) };
}

/**
 * Orders the paper by the sender's `orderIndex` and stores these numbers. If a question lacks a number or two numbers are
 * equal, all numbers are ignored and the paper keeps the order of the array.
 */
function inSentOrder(copies: Question[], questions: readonly QuestionInput[]): Paper {
  const numbered = questions.flatMap(({ orderIndex }, index) => {
    const question = copies[index];
    return orderIndex == null || question === undefined ? [] : [{ orderIndex, question }];
  });
  const distinct = new Set(numbered.map(({ orderIndex }) => orderIndex));
  if (distinct.size < questions.length) return { questions: copies };
  numbered.sort((one, other) => one.orderIndex - other.orderIndex);
  return {
    questions: numbered.map(({ question }) => question),
    orderIndexes: numbered.map(({ orderIndex }) => orderIndex),
  };
}

/**
 * Returns the question faults of a body that failed its schema, so that the sender receives every fault at once. Questions
 * with a `known` schema fault are skipped.
 */
export function* paperFaults(body: unknown, known: readonly FaultDetail[]): Pieces<FaultDetail[]> {
  const questions = isRecord(body) ? body.questions : undefined;
  if (!Array.isArray(questions)) return [];
  const broken = new Set(known.map(({ path }) => path.split('/', 3).join('/')));
  if (broken.has('/questions')) return [];
  const sound = [...questions.entries()].filter(([index]) => !broken.has(`/questions/${index}`));
  return (yield* copyQuestions(sound as [number, QuestionInput][])).details;
}

/** Copies questions and returns their faults. `questions` are pairs of an index in the body and a question. */
function* copyQuestions(
  questions: readonly [number, QuestionInput][],
): Pieces<{ copies: Question[]; details: FaultDetail[] }> {
  const details = [...identityFaults(questions)];
  const copies: Question[] = [];
  for (const [index, input] of questions) {
    const options = (input.options ?? []).map(copyOption);
    // Importers that shuffle nothing send an empty order.
    const optionOrder = input.optionOrder?.length ? input.optionOrder : null;
    const rule = input.scoringRule ?? ruleWithout(input.type);
    if (rule === null) {
      details.push({ path: `/questions/${index}/scoringRule`, message: 'is required' });
      continue;
    }
    const question = copyQuestion({ ...input, optionOrder, scoringRule: rule }, options);
    for (const fault of questionFaults(question, optionOrder)) {
      details.push({ path: `/questions/${index}${fault.path}`, message: fault.message });
    }
    copies.push(question);
    yield;
  }
  return { copies, details };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

/** Returns the rule of a question that was sent without one, or null: only an essay has one way to be scored. */
function ruleWithout(type: string): ScoringRuleInput | null {
  return type === 'ESSAY' ? { mode: 'MANUAL' } : null;
}

/** A question with its rule, as sent or implied by its type. */
type RuledInput = QuestionInput & { scoringRule: ScoringRuleInput };

function copyQuestion(input: RuledInput, options: QuestionOption[]): Question {
  return {
    id: input.id ?? null,
    examQuestionId: input.examQuestionId ?? null,
    questionId: input.questionId,
    questionVersionId: input.questionVersionId ?? null,
    score: input.score,
    type: input.type,
    content: input.content ?? '',
    contentText: input.contentText ?? '',
    options,
    optionOrder: positionsOf(options, input.optionOrder ?? null),
    scoringRule: copyRule(input.scoringRule),
    answerKey: input.answerKey == null ? markedKey(input) : copyKey(input.answerKey),
  };
}

function copyOption(option: OptionInput): QuestionOption {
  return { id: option.id, label: option.label ?? '', content: option.content ?? '' };
}

/** Returns the positions of the option ids. An unknown id becomes -1; `questionFaults` refuses such an order before any use. */
function positionsOf(options: readonly QuestionOption[], order: readonly string[] | null): number[] | null {
  if (order === null) return null;
  const positions = new Map(options.map((option, position) => [option.id, position]));
  return order.map((id) => positions.get(id) ?? -1);
}

/** Copies a rule field by field. */
export function copyRule(rule: ScoringRuleInput): ScoringRule {
  return {
    mode: rule.mode,
    ...(rule.maxScore == null ? {} : { maxScore: rule.maxScore }),
    ...(rule.incorrectPenalty == null ? {} : { incorrectPenalty: rule.incorrectPenalty }),
    ...(rule.minScore == null ? {} : { minScore: rule.minScore }),
    ...(rule.tolerance == null ? {} : { tolerance: rule.tolerance }),
    ...(rule.toleranceType == null ? {} : { toleranceType: rule.toleranceType }),
    ...(rule.caseSensitive == null ? {} : { caseSensitive: rule.caseSensitive }),
    ...(rule.ladder == null ? {} : { ladder: [...rule.ladder] }),
  };
}

/** Copies a key field by field. */
export function copyKey(key: AnswerKeyInput): AnswerKey {
  return {
    ...(key.correctOptionIds == null ? {} : { correctOptionIds: [...key.correctOptionIds] }),
    ...(key.statements == null
      ? {}
      : { statements: key.statements.map(({ statementId, value }) => ({ statementId, value })) }),
    ...(key.acceptedTexts == null ? {} : { acceptedTexts: [...key.acceptedTexts] }),
    ...(key.numericAnswers == null
      ? {}
      : {
          numericAnswers: key.numericAnswers.map(({ value, tolerance }) => ({
            value,
            ...(tolerance == null ? {} : { tolerance }),
          })),
        }),
  };
}

/**
 * Returns the answer key of a question without `answerKey`, made from `isCorrect` of each option or statement. If any option
 * lacks `isCorrect`, the key is empty, because the missing marks would be a guess.
 */
function markedKey(input: RuledInput): AnswerKey {
  const marks = (input.options ?? []).flatMap(({ id, isCorrect }) => (isCorrect == null ? [] : [{ id, isCorrect }]));
  if (marks.length === 0 || marks.length < (input.options ?? []).length) return {};
  switch (ANSWER_KIND[ruleTypeOf({ ...input, options: marks })]) {
    case 'selected':
      return { correctOptionIds: marks.filter(({ isCorrect }) => isCorrect).map(({ id }) => id) };
    case 'statements':
      return { statements: marks.map(({ id, isCorrect }) => ({ statementId: id, value: isCorrect })) };
    case 'text':
      return {};
  }
}

/**
 * Returns a fault for each ambiguous name. A question is found by its questionId or its id, so two questions of a paper must
 * not share any of these names. The two names of one question may be equal.
 */
function* identityFaults(questions: readonly [number, QuestionInput][]): Generator<FaultDetail> {
  const byQuestionId = new Map<string, number>();
  for (const [index, { questionId }] of questions) {
    if (byQuestionId.has(questionId)) yield { path: `/questions/${index}/questionId`, message: 'must be unique' };
    else byQuestionId.set(questionId, index);
  }
  const ids = new Set<string>();
  for (const [index, { id }] of questions) {
    if (id == null) continue;
    const path = `/questions/${index}/id`;
    if (ids.has(id)) yield { path, message: 'must be unique' };
    ids.add(id);
    const named = byQuestionId.get(id);
    if (named !== undefined && named !== index) yield { path, message: "equals another question's questionId" };
  }
}
