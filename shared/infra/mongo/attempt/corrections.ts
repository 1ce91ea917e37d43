import type { ClientSession } from 'mongodb';
import { readIn } from '#infra/mongo/causal-read.ts';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { shareReads } from '#infra/mongo/shared-reads.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { type AppliedRegrade, bindingCorrections, correctedPaper } from '#shared/attempt/correction.ts';
import type { Paper } from '#shared/attempt/question.ts';
import { regrades } from './collections.ts';
import type { Papers } from './papers.ts';

/** Returns the regrades of an exam that bind grades, in the order in which they were applied. */
export async function appliedRegrades(
  mongo: Mongo,
  examId: string,
  session?: ClientSession,
): Promise<AppliedRegrade[]> {
  const found = await regrades(mongo)
    .find(
      { examId, isApplied: true },
      {
        projection: { number: 1, changes: 1, by: 1, appliedBy: 1, appliedAt: 1 },
        ...readIn(session),
        sort: { number: 1 },
        hint: 'applied',
        maxTimeMS: QUERY_LIMIT_MS,
      },
    )
    .toArray();
  return found as unknown as AppliedRegrade[];
}

/** The fields of an attempt that decide how it is graded. */
type Gradable = Pick<Attempt, 'paperId' | 'examId' | 'startedAt' | 'scope' | 'erasedAt'>;

/**
 * Returns the paper by which an attempt is graded: its copy with the corrections that bind it, or with those before `until`. Attempts of one
 * exam share a read. In the session in which the attempt was read, it shows every regrade that had met the attempt before.
 */
export type GradingPaper = (attempt: Gradable, session?: ClientSession, until?: Date) => Promise<Paper>;

/** Opens the reads of a process. */
export function openGradingPapers(mongo: Mongo, papers: Pick<Papers, 'find'>): GradingPaper {
  const read = shareReads(
    (examId: string) => examId,
    (examId, session) => appliedRegrades(mongo, examId, session),
  );
  return async (attempt, session, until) => {
    // One after the other: a session runs one command at a time. The paper is in memory as a rule.
    const paper = await papers.find(attempt.paperId, session);
    const applied = await read(attempt.examId, session);
    const known = until === undefined ? applied : applied.filter(({ appliedAt }) => appliedAt < until);
    return correctedPaper(paper, bindingCorrections(attempt, known));
  };
}
