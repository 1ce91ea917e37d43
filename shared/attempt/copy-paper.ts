import type { FaultDetail, Rejection } from '#shared/kernel/errors.ts';
import type { Optional } from '#shared/kernel/json-object.ts';
import type { AnswerKey, Paper, Question, QuestionOption, QuestionType, ScoringMode, ScoringRule } from './question.ts';
import { questionFaults } from './question-faults.ts';

/** One element of a start's `questions`, its shape already validated. Fields not named here are never copied. */
export interface QuestionInput {
  id?: Optional<string>;
  examQuestionId?: Optional<string>;
  questionId: string;
  questionVersionId?: Optional<string>;
  score: number;
  type: QuestionType;
  content?: Optional<string>;
  contentText?: Optional<string>;
  options?: Optional<readonly OptionInput[]>;
  optionOrder?: Optional<readonly string[]>;
  scoringRule: ScoringRuleInput;
  answerKey?: Optional<AnswerKeyInput>;
}

interface OptionInput {
  id: string;
  label?: Optional<string>;
  content?: Optional<string>;
}

interface ScoringRuleInput {
  mode: ScoringMode;
  maxScore?: Optional<number>;
  incorrectPenalty?: Optional<number>;
  minScore?: Optional<number>;
  tolerance?: Optional<number>;
  toleranceType?: Optional<'ABSOLUTE' | 'RELATIVE'>;
  caseSensitive?: Optional<boolean>;
  ladder?: Optional<readonly number[]>;
}

interface AnswerKeyInput {
  correctOptionIds?: Optional<readonly string[]>;
  statements?: Optional<readonly { statementId: string; value: boolean }[]>;
  acceptedTexts?: Optional<readonly string[]>;
  numericAnswers?: Optional<readonly { value: number; tolerance?: Optional<number> }[]>;
}

/**
 * Copies the question snapshots of a start, field by field: a producer's further fields are dropped here and never
 * stored. Rejects with every fault of every question at once (paths as `/questions/3/answerKey/correctOptionIds`),
 * because a paper that cannot be graded must be refused before a student sits it.
 */
export function copyPaper(questions: readonly QuestionInput[]): { paper: Paper } | Rejection {
  if (questions.length === 0) {
    return { rejected: 'VALIDATION_FAILED', details: [{ path: '/questions', message: 'at least one is required' }] };
  }
  const { copies, details } = copyQuestions([...questions.entries()]);
  return details.length > 0 ? { rejected: 'VALIDATION_FAILED', details } : { paper: { questions: copies } };
}

/**
 * The faults of the questions of a body that has not passed its schema, beside those in `known`: a sender is told of
 * everything at once. Questions in which the schema found a fault are left alone.
 */
export function paperFaults(body: unknown, known: readonly FaultDetail[]): FaultDetail[] {
  const questions = isRecord(body) ? body.questions : undefined;
  if (!Array.isArray(questions)) return [];
  const broken = new Set(known.map(({ path }) => path.split('/', 3).join('/')));
  if (broken.has('/questions')) return [];
  const sound = [...questions.entries()].filter(([index]) => !broken.has(`/questions/${index}`));
  return copyQuestions(sound as [number, QuestionInput][]).details;
}

/** Pairs of a question and its place in the body. */
function copyQuestions(questions: readonly [number, QuestionInput][]): { copies: Question[]; details: FaultDetail[] } {
  const details = [...identityFaults(questions)];
  const copies: Question[] = [];
  for (const [index, input] of questions) {
    const options = (input.options ?? []).map(copyOption);
    const optionOrder = input.optionOrder ?? null;
    const question = copyQuestion(input, options);
    for (const fault of questionFaults(question, optionOrder)) {
      details.push({ path: `/questions/${index}${fault.path}`, message: fault.message });
    }
    copies.push(question);
  }
  return { copies, details };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

function copyQuestion(input: QuestionInput, options: QuestionOption[]): Question {
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
    answerKey: copyKey(input.answerKey ?? {}),
  };
}

function copyOption(option: OptionInput): QuestionOption {
  return { id: option.id, label: option.label ?? '', content: option.content ?? '' };
}

/** Unknown ids become -1; `questionFaults` refuses such an order before anyone reads it. */
function positionsOf(options: readonly QuestionOption[], order: readonly string[] | null): number[] | null {
  if (order === null) return null;
  const positions = new Map(options.map((option, position) => [option.id, position]));
  return order.map((id) => positions.get(id) ?? -1);
}

function copyRule(rule: ScoringRuleInput): ScoringRule {
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

function copyKey(key: AnswerKeyInput): AnswerKey {
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
 * A question is named by its questionId or by its id, so across the paper no two of these names may meet; a
 * question's own two names may be equal.
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
