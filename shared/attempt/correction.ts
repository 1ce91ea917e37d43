import { sumExactly } from '#shared/kernel/decimal.ts';
import type { Attempt } from './attempt.ts';
import type { Examiner } from './extra-time.ts';
import type { AnswerKey, Award, Paper, Question, ScoringRule } from './question.ts';
import { isExaminer } from './visibility.ts';

/**
 * A change of a question that was decided after students had sat it. It is stored beside the copied papers, which never change: a grade
 * follows from the paper, the corrections of its exam and the answers.
 */
export interface Correction {
  questionId: string;
  /** The version that is changed; null for every version. */
  questionVersionId: string | null;
  award?: Award;
  answerKey?: AnswerKey;
  scoringRule?: ScoringRule;
}

/** A regrade binds grades from APPLYING on. */
export type RegradeState = 'PREVIEWING' | 'PREVIEW' | 'APPLYING' | 'APPLIED' | 'DISCARDED';

/** A regrade that binds grades: its changes, who decided them, and when. */
export interface AppliedRegrade {
  number: number;
  changes: readonly Correction[];
  by: Examiner;
  /** The examiner who applied it; absent if the row does not say so. */
  appliedBy?: Examiner;
  appliedAt: Date;
}

/** Fields of an attempt that decide which regrades bind its grade. */
type Bound = Pick<Attempt, 'startedAt' | 'scope' | 'erasedAt'>;

/**
 * Returns the corrections that bind the grade of an attempt, in the order in which they were applied. They were decided after its
 * start, by examiners of it: the maker, and the one who applied it. An attempt that starts later has the key that its own start brought. The
 * attempt of an erased student keeps the grade that it had, because its texts are gone.
 */
export function bindingCorrections(attempt: Bound, applied: readonly AppliedRegrade[]): Correction[] {
  return binding(attempt, applied).flatMap(({ changes }) => changes);
}

function binding(attempt: Bound, applied: readonly AppliedRegrade[]): AppliedRegrade[] {
  const { startedAt, erasedAt } = attempt;
  return applied
    .filter(({ by, appliedBy = by }) => isExaminer(attempt, by) && isExaminer(attempt, appliedBy))
    .filter(({ appliedAt }) => startedAt < appliedAt)
    .filter(({ appliedAt }) => erasedAt == null || appliedAt < erasedAt)
    .toSorted((one, other) => one.number - other.number);
}

/**
 * Returns a function that corrects the papers of an exam, for a walk over its attempts: those with the same paper and the same corrections
 * share a copy.
 */
export function openCorrectedCopies(applied: readonly AppliedRegrade[]) {
  const copies = new Map<string, Paper>();
  return (attempt: Bound & Pick<Attempt, 'paperId'>, paper: Paper): Paper => {
    const bound = binding(attempt, applied);
    const key = JSON.stringify([attempt.paperId, ...bound.map(({ number }) => number)]);
    const copy =
      copies.get(key) ??
      correctedPaper(
        paper,
        bound.flatMap(({ changes }) => changes),
      );
    copies.set(key, copy);
    return copy;
  };
}

/** Returns true if the correction is about this question. */
export function isAbout({ questionId, questionVersionId }: Correction, question: Question): boolean {
  if (question.questionId !== questionId) return false;
  return questionVersionId === null || question.questionVersionId === questionVersionId;
}

/**
 * Returns the paper with these corrections, in the order in which they were applied: each one builds on those before. Returns the same paper
 * if none is about it.
 */
export function correctedPaper(paper: Paper, corrections: readonly Correction[]): Paper {
  if (corrections.length === 0) return paper;
  const questions = paper.questions.map((question) => corrections.reduce(corrected, question));
  return questions.every((question, index) => question === paper.questions[index]) ? paper : { ...paper, questions };
}

/** Returns the question after one correction. A new key or rule takes an earlier award back. */
export function corrected(question: Question, correction: Correction): Question {
  if (!isAbout(correction, question)) return question;
  const { award, answerKey, scoringRule } = correction;
  if (award !== undefined) return { ...question, award };
  const { award: _, ...rest } = question;
  return { ...rest, answerKey: answerKey ?? rest.answerKey, scoringRule: scoringRule ?? rest.scoringRule };
}

/** Returns the sum of the questions' scores, without those that a correction has taken out. */
export function maxScoreOf({ questions }: Paper): number {
  return sumExactly(questions.filter(({ award }) => award !== 'EXCLUDE').map(({ score }) => score));
}
