import { sumExactly } from '#shared/kernel/decimal.ts';
import type { FaultDetail } from '#shared/kernel/errors.ts';
import { isBlank } from '#shared/kernel/text.ts';
import { isScoredByHand, modeFits, type Question, ruleTypeOf } from './question.ts';

/**
 * Returns every fault that makes a question impossible to show or to grade, with paths inside the question. Parts of the answer
 * key that the mode does not read are optional, but must follow the same rules.
 * `optionOrder` contains ids as they were sent, not positions.
 */
export function questionFaults(question: Question, optionOrder: readonly string[] | null): FaultDetail[] {
  return [
    ...optionFaults(question, optionOrder),
    ...ruleFaults(question),
    ...keyPartFaults(question),
    ...missingKeyFaults(question),
  ];
}

function* optionFaults(question: Question, optionOrder: readonly string[] | null): Generator<FaultDetail> {
  const ids = new Set<string>();
  for (const [index, { id }] of question.options.entries()) {
    if (ids.has(id)) yield { path: `/options/${index}/id`, message: 'must be unique within the question' };
    ids.add(id);
  }
  if (optionOrder === null) return;
  const ordered = new Set(optionOrder);
  const isPermutation =
    optionOrder.length === question.options.length &&
    ordered.size === optionOrder.length &&
    optionOrder.every((id) => ids.has(id));
  if (!isPermutation) yield { path: '/optionOrder', message: 'must be a permutation of the option ids' };
}

function* ruleFaults(question: Question): Generator<FaultDetail> {
  const { score, scoringRule: rule, type } = question;
  if (!modeFits(question)) {
    yield { path: '/scoringRule/mode', message: `${rule.mode} does not fit the type ${type}` };
  }
  const ruleMax = rule.maxScore ?? score;
  if (rule.minScore !== undefined && rule.minScore > ruleMax) {
    yield { path: '/scoringRule/minScore', message: 'must not be above maxScore' };
  }
  if (rule.ladder === undefined) return;
  const path = '/scoringRule/ladder';
  if (rule.mode === 'THPT_TRUE_FALSE_LADDER') yield { path, message: 'this mode has its own ladder' };
  if (rule.mode === 'TRUE_FALSE_GROUP' && rule.ladder.length !== question.options.length + 1) {
    yield { path, message: 'must contain one fraction more than the number of statements' };
  }
}

/**
 * Returns a fault if the highest or the lowest total of a paper, or its percentage, could be beyond the largest JSON number. A question loses
 * at most `minScore / maxScore` of its score; rounding to six places at most doubles that.
 */
export function* totalsFaults(questions: readonly Question[]): Generator<FaultDetail> {
  const most = sumExactly(questions.map(({ score }) => score));
  const shares = questions.map(
    ({ score, scoringRule: { minScore = 0, maxScore } }) => minScore / (maxScore ?? (score || 1)),
  );
  const least = 2 * Math.min(0, ...shares);
  if ([most, least * most, least * 100].every(Number.isFinite)) return;
  yield { path: '/questions', message: 'must have totals and percentages that a JSON number can hold' };
}

function* keyPartFaults(question: Question): Generator<FaultDetail> {
  const { correctOptionIds, statements, acceptedTexts } = question.answerKey;
  const ids = new Set(question.options.map((option) => option.id));
  for (const [index, id] of (correctOptionIds ?? []).entries()) {
    if (!ids.has(id)) yield { path: `/answerKey/correctOptionIds/${index}`, message: 'unknown option id' };
  }
  const seen = new Set<string>();
  for (const [index, { statementId }] of (statements ?? []).entries()) {
    const path = `/answerKey/statements/${index}/statementId`;
    if (!ids.has(statementId)) yield { path, message: 'unknown option id' };
    if (seen.has(statementId)) yield { path, message: 'must appear once' };
    seen.add(statementId);
  }
  for (const [index, text] of (acceptedTexts ?? []).entries()) {
    if (isBlank(text)) yield { path: `/answerKey/acceptedTexts/${index}`, message: 'must not be blank' };
  }
}

/** Returns a fault for each missing part of the key that the mode reads. `ruleFaults` alone reports a mode that does not fit. */
function* missingKeyFaults(question: Question): Generator<FaultDetail> {
  if (isScoredByHand(question) || !modeFits(question)) return;
  const { answerKey: key, scoringRule } = question;
  const type = ruleTypeOf(question);
  switch (type) {
    case 'SINGLE_CHOICE':
    case 'MULTIPLE_CHOICE': {
      const correct = new Set(key.correctOptionIds ?? []).size;
      const path = '/answerKey/correctOptionIds';
      if (correct === 0) yield { path, message: 'must not be empty' };
      if (type === 'SINGLE_CHOICE' && correct > 1) yield { path, message: 'SINGLE_CHOICE has one correct option' };
      return;
    }
    case 'TRUE_FALSE_GROUP':
      yield* statementKeyFaults(question);
      return;
    case 'SHORT_TEXT': {
      const hasTexts = (key.acceptedTexts ?? []).length > 0;
      const hasNumbers = (key.numericAnswers ?? []).length > 0;
      if (scoringRule.mode === 'NUMERIC') {
        if (!hasNumbers) yield { path: '/answerKey/numericAnswers', message: 'must not be empty' };
      } else if (!hasTexts && !hasNumbers) {
        yield { path: '/answerKey/acceptedTexts', message: 'must not be empty' };
      }
      return;
    }
    case 'NUMERIC':
      if ((key.numericAnswers ?? []).length === 0) {
        yield { path: '/answerKey/numericAnswers', message: 'must not be empty' };
      }
      return;
    case 'ESSAY':
      return;
  }
}

function* statementKeyFaults({ answerKey, options, scoringRule }: Question): Generator<FaultDetail> {
  const path = '/answerKey/statements';
  const keyed = new Set((answerKey.statements ?? []).map((statement) => statement.statementId));
  if (keyed.size === 0) {
    yield { path, message: 'must not be empty' };
    return;
  }
  const missing = options.filter((option) => !keyed.has(option.id));
  if (missing.length > 0) yield { path, message: 'must contain every statement' };
  if (scoringRule.mode === 'THPT_TRUE_FALSE_LADDER' && options.length !== 4) {
    yield { path: '/options', message: 'must contain exactly 4 statements in this mode' };
  }
}
