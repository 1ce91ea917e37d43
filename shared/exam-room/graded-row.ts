import { type Attempt, answerKeyOf, type StoredAnswer } from '#shared/attempt/attempt.ts';
import { isErasedAttempt } from '#shared/attempt/erased.ts';
import { isScoredByHand, type Paper, type Question, ruleTypeOf } from '#shared/attempt/question.ts';
import { isUnanswered } from '#shared/attempt/scoring/score-question.ts';
import type { Outcome, StatisticQuestion } from './item-statistics.ts';
import type { StatisticRow } from './statistics.ts';

/** The fields of a graded attempt from which its part in the statistics follows. */
export type GradedFacts = Pick<Attempt, '_id' | 'paperId' | 'maxScore' | 'totalScore' | 'answers' | 'erasedAt'>;

/** Returns the number of a question in the authored paper, whatever place it has in an attempt. */
export function authoredIndex(paper: Paper, paperIndex: number): number {
  return paper.orderIndexes?.[paperIndex] ?? paperIndex;
}

/** Returns the questions of a paper for statistics. Attempts of one paper have to share the result. */
export function statisticQuestions(paper: Paper): StatisticQuestion[] {
  return counted(paper).map(([index, question]) => ({
    questionId: question.questionId,
    orderIndex: authoredIndex(paper, index),
    type: question.type,
    maxScore: question.score,
    options: question.options.map(({ id }) => id),
    key: keyOf(question),
  }));
}

/** Returns the questions of a corrected paper with their indexes, without those that a regrade has taken out. */
function counted(paper: Paper): [index: number, question: Question][] {
  return [...paper.questions.entries()].filter(([, { award }]) => award !== 'EXCLUDE');
}

/** Returns the right choices. A question that is graded by hand has none, and a statement that all call false is no unused distractor. */
function keyOf(question: Question): readonly string[] | null {
  const type = ruleTypeOf(question);
  const isChoice = type === 'SINGLE_CHOICE' || type === 'MULTIPLE_CHOICE';
  return isChoice && !isScoredByHand(question) ? (question.answerKey.correctOptionIds ?? []) : null;
}

/** Returns a graded attempt for statistics. `questions` are those of its paper. */
export function statisticRow(
  attempt: GradedFacts,
  paper: Paper,
  questions: readonly StatisticQuestion[],
): StatisticRow {
  return {
    attemptId: attempt._id,
    totalScore: attempt.totalScore ?? 0,
    maxScore: attempt.maxScore,
    questions,
    outcomes: counted(paper).map(([index, question]) =>
      outcomeOf(question, attempt.answers[answerKeyOf(index)], isErasedAttempt(attempt)),
    ),
  };
}

/** Returns what became of a question in a graded attempt. Without an answer it scores 0; one that waits for a grade by hand has no score. */
function outcomeOf(question: Question, answer: StoredAnswer | undefined, isErased: boolean): Outcome {
  const awarded = question.award === 'FULL' ? question.score : undefined;
  if (answer === undefined) return { score: awarded ?? 0, isAnswered: false, chosen: [] };
  const isPending = answer.score === null && isScoredByHand(question);
  return {
    score: isPending ? null : (awarded ?? answer.score ?? 0),
    // A long text is not read here. That of an erased student is gone, and the answer counts as given.
    isAnswered: answer.textRef === true || !isUnanswered(question, answer) || (isErased && answer.text === ''),
    chosen: answer.selected ?? trueStatements(answer),
  };
}

function trueStatements({ statements = [] }: StoredAnswer): string[] {
  return statements.flatMap(({ statementId, value }) => (value === true ? [statementId] : []));
}
