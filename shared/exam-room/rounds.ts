import type { Attempt, ScoreChange, StoredAnswer } from '#shared/attempt/attempt.ts';
import { isVoided, roundOf } from '#shared/attempt/attempt.ts';
import { withScoreChange } from '#shared/attempt/score-history.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { awayUntil } from './board.ts';

/** Returns why an attempt cannot be reopened, or null. `openId` is another open attempt of its student at the exam. */
export function refuseReopen(attempt: Pick<Attempt, 'status' | 'voidedAt'>, openId: string | null): Rejection | null {
  if (attempt.voidedAt != null) return { rejected: 'ATTEMPT_VOIDED' };
  if (attempt.status === 'IN_PROGRESS') return { rejected: 'ATTEMPT_NOT_SUBMITTED' };
  return openId === null ? null : { rejected: 'ATTEMPT_ALREADY_OPEN', data: { attemptId: openId } };
}

/** Fields of an attempt that decide whether it, or another one of its student at the exam, may count again. */
export type Restorable = Pick<Attempt, 'attemptNumber' | 'voidedAt' | 'startLimits' | 'accessLinkId'>;

/**
 * Returns why a voided attempt cannot count again, or null. `others` are all those of its student at the exam. The limit is that of the newest
 * start that would count the attempt: a start on a link may count the attempts on the link alone.
 */
export function refuseRestore(attempt: Restorable, others: readonly Restorable[]): Rejection | null {
  if (!isVoided(attempt)) return { rejected: 'ATTEMPT_NOT_VOIDED' };
  const ofLink = (one: Restorable) => one.accessLinkId === attempt.accessLinkId;
  const newest = [attempt, ...others]
    .filter((one) => one.startLimits !== undefined && (one.startLimits.scope === 'exam' || ofLink(one)))
    .reduce<Restorable | null>(
      (last, one) => (last === null || one.attemptNumber > last.attemptNumber ? one : last),
      null,
    );
  const { attempts: limit = null, scope } = newest?.startLimits ?? {};
  const counted = others.filter((other) => !isVoided(other) && (scope === 'exam' || ofLink(other)));
  return limit !== null && counted.length >= limit ? { rejected: 'ATTEMPT_LIMIT_REACHED' } : null;
}

/**
 * Returns the fields of an attempt that begins its next round. Answers stay, their grades go; a grade by hand is remembered with its answer,
 * and stands at the next submit unless a save replaces the answer. The old grade is in the history.
 */
export function reopenedFields(attempt: Attempt, change: ScoreChange, deadlineAt: Date) {
  const { answers, tally } = attempt;
  return {
    status: 'IN_PROGRESS' as const satisfies Attempt['status'],
    round: roundOf(attempt) + 1,
    deadlineAt,
    submittedAt: null,
    submittedBy: null,
    durationSeconds: null,
    totalScore: null,
    correctCount: null,
    wrongCount: null,
    pendingManualCount: null,
    answers: Object.fromEntries(Object.entries(answers).map(([key, answer]) => [key, ungraded(answer)])),
    tally: { ...tally, scored: false, graded: 0 },
    scoreHistory: withScoreChange(attempt, change),
    ...(attempt.away == null || attempt.submittedAt === null
      ? {}
      : { away: awayUntil(attempt.away, attempt.submittedAt) }),
    ...(attempt.waitingHandoffs === undefined ? {} : { waitingHandoffs: [] }),
  };
}

/** Returns an answer without its grade, as the attempt stores it: a long text, which the load has filled in, is in a row of its own. */
function ungraded({ text, standing, ...answer }: StoredAnswer): StoredAnswer {
  const { isCorrect, score, grader } = answer;
  const stands = grader !== undefined && isCorrect !== null && score !== null ? { isCorrect, score } : standing;
  return {
    ...answer,
    ...(text === undefined || answer.textRef === true ? {} : { text }),
    isCorrect: null,
    score: null,
    ...(stands === undefined ? {} : { standing: stands }),
  };
}
