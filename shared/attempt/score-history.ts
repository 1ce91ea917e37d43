import type { Attempt, ScoreChange } from './attempt.ts';

/** Changes that an attempt keeps: the newest ones. */
const KEPT = 500;

type Graded = Pick<
  Attempt,
  'status' | 'events' | 'submittedAt' | 'startedAt' | 'totalScore' | 'maxScore' | 'scoreHistory'
>;

/**
 * Returns the history of an attempt with one more change. An attempt that was graded before histories were stored begins with that grade, at
 * the time of its terminal event.
 */
export function withScoreChange(attempt: Graded, change: ScoreChange): ScoreChange[] {
  return [...(attempt.scoreHistory ?? earlierGrade(attempt)), change].slice(-KEPT);
}

function earlierGrade({ status, events, submittedAt, startedAt, totalScore, maxScore }: Graded): ScoreChange[] {
  if (status !== 'GRADED') return [];
  const graded = events.findLast(({ type }) => type === 'SUBMIT' || type === 'TIMEOUT');
  const at = graded?.createdAt ?? submittedAt ?? startedAt;
  return [{ at, by: null, cause: 'GRADE', totalScore, maxScore, regradeId: null, reason: null }];
}

/** Returns the grades that an attempt has had, for examiners only. */
export function historyForReply({ scoreHistory = [] }: Pick<Attempt, 'scoreHistory'>) {
  return scoreHistory.map(({ at, by, cause, totalScore, maxScore, regradeId, reason }) => ({
    at: at.toISOString(),
    by,
    cause,
    totalScore,
    maxScore,
    regradeId,
    reason,
  }));
}
