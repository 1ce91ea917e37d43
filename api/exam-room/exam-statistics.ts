import pLimit from 'p-limit';
import { appliedRegrades } from '#infra/mongo/attempt/corrections.ts';
import type { Papers } from '#infra/mongo/attempt/papers.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { gradedRows } from '#infra/mongo/exam-room/results.ts';
import { shareReads } from '#infra/mongo/shared-reads.ts';
import { inPieces } from '#infra/process/in-pieces.ts';
import { openCorrectedCopies } from '#shared/attempt/correction.ts';
import type { Examiner } from '#shared/attempt/extra-time.ts';
import type { Paper } from '#shared/attempt/question.ts';
import { chosenAttempts } from '#shared/exam-room/choice.ts';
import { statisticQuestions, statisticRow } from '#shared/exam-room/graded-row.ts';
import type { StatisticQuestion } from '#shared/exam-room/item-statistics.ts';
import { type Statistics, StatisticTable } from '#shared/exam-room/statistics.ts';

/** Counts at a time. Each walks all attempts of an exam. */
const AT_ONCE = 2;

interface WantedStatistics {
  examId: string;
  by: Examiner;
  choice: 'first' | 'last' | 'best';
}

export interface NamedStatistics {
  title: string;
  statistics: Statistics;
}

/**
 * Counts the statistics of an exam. Examiners who ask at the same time share one count, so that a staff room costs as much as a teacher. It
 * begins after each of them has asked, and so shows every act that has ended before.
 */
export type ExamStatistics = (wanted: WantedStatistics) => Promise<NamedStatistics>;

export function openExamStatistics(mongo: Mongo, papers: Papers): ExamStatistics {
  const limit = pLimit(AT_ONCE);
  return shareReads(
    ({ examId, by, choice }: WantedStatistics) => JSON.stringify([examId, by.id, by.role, choice]),
    (wanted) => limit(countStatistics, mongo, papers, wanted),
  );
}

/** Reads the graded attempts one after the other, each with the corrected key of its own paper. */
async function countStatistics(
  mongo: Mongo,
  papers: Papers,
  { examId, by, choice }: WantedStatistics,
): Promise<NamedStatistics> {
  const table = new StatisticTable();
  const corrected = openCorrectedCopies(await appliedRegrades(mongo, examId));
  const questions = new Map<Paper, StatisticQuestion[]>();
  let title = '';
  for await (const attempt of chosenAttempts(gradedRows(mongo, examId, by), choice)) {
    const paper = corrected(attempt, await papers.find(attempt.paperId));
    const asked = questions.get(paper) ?? statisticQuestions(paper);
    questions.set(paper, asked);
    table.add(statisticRow(attempt, paper, asked));
    title = attempt.exam.title;
  }
  return { title, statistics: await inPieces(table.result()) };
}
