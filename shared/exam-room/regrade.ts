import type { Attempt } from '#shared/attempt/attempt.ts';
import { type AnswerKeyInput, copyKey, copyRule, type ScoringRuleInput } from '#shared/attempt/copy-paper.ts';
import { type Correction, corrected, correctedPaper, isAbout } from '#shared/attempt/correction.ts';
import { type Award, isScoredByHand, type Paper, type Question } from '#shared/attempt/question.ts';
import { questionFaults, totalsFaults } from '#shared/attempt/question-faults.ts';
import { type Grading, questionScores, regradeAttempt, type Totals } from '#shared/attempt/scoring/grade-attempt.ts';
import type { FaultDetail, Rejection } from '#shared/kernel/errors.ts';
import type { Optional } from '#shared/kernel/json.ts';
import type { Pieces } from '#shared/kernel/pieces.ts';

/** A change of a regrade that passed its schema. */
export interface ChangeInput {
  questionId: string;
  questionVersionId?: Optional<string>;
  award?: Optional<Award>;
  answerKey?: Optional<AnswerKeyInput>;
  scoringRule?: Optional<ScoringRuleInput>;
}

/** Copies the named fields of each change. */
export function copyChanges(changes: readonly ChangeInput[]): Correction[] {
  return changes.map(({ questionId, questionVersionId, award, answerKey, scoringRule }) => ({
    questionId,
    questionVersionId: questionVersionId ?? null,
    ...(award == null ? {} : { award }),
    ...(answerKey == null ? {} : { answerKey: copyKey(answerKey) }),
    ...(scoringRule == null ? {} : { scoringRule: copyRule(scoringRule) }),
  }));
}

/** Returns the faults that changes have whatever the papers of the exam are. */
export function changeFaults(changes: readonly Correction[]): FaultDetail[] {
  const seen = new Set<string>();
  return changes.flatMap((change, index) => {
    const path = `/changes/${index}`;
    const faults: FaultDetail[] = [];
    const isOfKey = change.answerKey !== undefined || change.scoringRule !== undefined;
    if ((change.award !== undefined) === isOfKey) {
      faults.push({ path, message: 'must have `award`, or else `answerKey`, `scoringRule` or both' });
    }
    const name = JSON.stringify([change.questionId, change.questionVersionId]);
    if (seen.has(name)) faults.push({ path: `${path}/questionId`, message: 'must be changed once' });
    seen.add(name);
    return faults;
  });
}

/**
 * Checks changes on one paper of an exam after another, because the copies of a question may differ. `papers` are those with the
 * corrections that were applied before.
 */
export function openPaperCheck(changes: readonly Correction[]) {
  const known = new Set<number>();
  const faults = new Map<string, FaultDetail>();
  const add = (path: string, message: string) => {
    if (!faults.has(path)) faults.set(path, { path, message });
  };
  return {
    see(paper: Paper): void {
      for (const [index, change] of changes.entries()) {
        for (const question of paper.questions) {
          if (!isAbout(change, question)) continue;
          known.add(index);
          for (const { path, message } of faultsOf(change, question)) add(`/changes/${index}${path}`, message);
        }
      }
      if (faults.size > 0) return;
      // Scores that are fine one by one may not add up.
      const { questions } = correctedPaper(paper, changes);
      for (const { message } of totalsFaults(questions)) add('/changes', message);
    },
    /** Returns the refusal of the changes, or null if they fit all papers that were seen. */
    end(): Rejection | null {
      if (faults.size > 0) return { rejected: 'VALIDATION_FAILED', details: [...faults.values()] };
      const missing = [...changes.keys()].filter((index) => !known.has(index));
      if (missing.length === 0) return null;
      const message = 'is in no paper of the exam';
      return {
        rejected: 'QUESTION_NOT_IN_EXAM',
        details: missing.map((index) => ({ path: `/changes/${index}/questionId`, message })),
      };
    },
  };
}

function faultsOf(change: Correction, question: Question): FaultDetail[] {
  if (change.award !== undefined) return [];
  const changed = corrected(question, change);
  const part = change.answerKey === undefined ? '/scoringRule' : '/answerKey';
  const { award: _, ...authored } = question;
  if (isScoredByHand(authored))
    return [{ path: part, message: 'a question that is scored by hand takes an `award` only' }];
  if (isScoredByHand(changed)) return [{ path: '/scoringRule/mode', message: 'must not be one by hand' }];
  // A fault of the copy itself is no fault of the change.
  const before = new Set(questionFaults(authored, null).map(({ path }) => path));
  return questionFaults(changed, null).filter(({ path }) => !before.has(path));
}

/** The result of a regrade for one graded attempt. */
export interface Regraded {
  grading: Grading;
  before: { totalScore: number | null; maxScore: number };
  after: { totalScore: number; maxScore: number };
  /** The questions whose score changes, in the order of the paper; null: pending, or taken out. */
  questions: { questionId: string; before: number | null; after: number | null }[];
  /** True if a stored total or the grade of a stored answer becomes another one. */
  differs: boolean;
}

type Graded = Pick<Attempt, 'answers' | 'maxScore' | keyof Totals>;

/** Grades an attempt anew, by its paper and all corrections: those which its grade has seen, and those which follow. */
export function* regrade(
  paper: Paper,
  { earlier, changes }: { earlier: readonly Correction[]; changes: readonly Correction[] },
  { answers, maxScore, ...stored }: Graded,
): Pieces<Regraded> {
  const seen = correctedPaper(paper, earlier);
  const now = correctedPaper(seen, changes);
  const grading = yield* regradeAttempt(now, answers);
  const [scores, nextScores] = [questionScores(seen, answers), questionScores(now, grading.answers)];
  const questions = paper.questions.flatMap(({ questionId }, index) => {
    const [before = null, after = null] = [scores[index], nextScores[index]];
    return before === after ? [] : [{ questionId, before, after }];
  });
  const before = { totalScore: stored.totalScore, maxScore };
  const after = { totalScore: grading.totals.totalScore, maxScore: grading.maxScore };
  const totals = Object.entries(grading.totals) as [keyof Totals, number][];
  const differs =
    isOtherTotal({ before, after }) ||
    totals.some(([name, value]) => stored[name] !== value) ||
    Object.entries(grading.answers).some(([key, { isCorrect, score }]) => {
      const answer = answers[key];
      return answer?.isCorrect !== isCorrect || answer.score !== score;
    });
  return { grading, before, after, questions, differs };
}

/** Returns true if total or full mark become others. */
function isOtherTotal({ before, after }: Pick<Regraded, 'before' | 'after'>): boolean {
  return before.totalScore !== after.totalScore || before.maxScore !== after.maxScore;
}

/** Returns true if a score of the attempt changes, and a preview therefore shows it. */
export function isChanged(regraded: Regraded): boolean {
  return regraded.questions.length > 0 || isOtherTotal(regraded);
}

/** Returns what one attempt adds to the counts of a preview. Up and down are about its total. */
export function countsOf(regraded: Regraded) {
  const { totalScore } = regraded.before;
  const rise = totalScore === null ? 0 : regraded.after.totalScore - totalScore;
  return { attempts: 1, changed: Number(isChanged(regraded)), up: Number(rise > 0), down: Number(rise < 0) };
}

/** Returns true if one of the changes is about a question of the paper. */
export function concerns(changes: readonly Correction[], paper: Paper): boolean {
  return paper.questions.some((question) => changes.some((change) => isAbout(change, question)));
}

/** A regrade that grades an attempt anew, who applied it, and why. */
export interface Applied {
  regradeId: string;
  by: string;
  reason: string;
}

/** Returns the metadata of a REGRADED event. `totalScore` is hidden as that of a submit; `by` and `reason` are for examiners alone. */
export function regradeMetadata({ regradeId, by, reason }: Applied, { after }: Regraded) {
  return { regradeId, ...after, by, reason };
}
