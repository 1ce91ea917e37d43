import type { Filter } from 'mongodb';
import { fillTexts, findAttempt } from '#infra/mongo/attempt/attempts.ts';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import type { Examiner } from '#shared/attempt/extra-time.ts';
import type { GradedFacts } from '#shared/exam-room/graded-row.ts';
import type { ResultFacts } from '#shared/exam-room/results-csv.ts';
import { examinedBy } from './examined.ts';

/** Attempts whose long texts are in memory at a time: an attempt may have 4 MiB of answers, and most have some KiB. */
const BATCH = 20;

interface Walked {
  examId: string;
  by: Examiner;
  /** Attempts that began later are not met. */
  until: Date;
  /** true: voided attempts are left out. */
  onlyCounted: boolean;
}

/** Returns the filter of a walk. It goes by student and number, so that all attempts of a student come one after the other. */
function filterOf({ examId, by, until, onlyCounted }: Walked): Filter<Attempt> {
  return { examId, startedAt: { $lte: until }, ...(onlyCounted ? { voidedAt: null } : {}), ...examinedBy(by) };
}

/**
 * A walk reads whole attempts, in the order of the index, so that a server sends the first ones at once. The stand-in in Rust builds all rows of a
 * projection before it sends one: at 100,000 attempts, that exceeds the time limit.
 */
const IN_ORDER = { hint: 'of_exam_by_student', batchSize: 100, maxTimeMS: QUERY_LIMIT_MS * 4 } as const;
const ORDER = { studentId: 1, attemptNumber: 1 } as const;

/** Yields of each attempt what decides the columns of the file. */
export async function* columnRows(
  mongo: Mongo,
  walked: Walked,
): AsyncGenerator<Pick<Attempt, 'studentInfo' | 'paperId'>> {
  const options = { ...IN_ORDER, batchSize: 1_000, projection: { _id: 0, studentInfo: 1, paperId: 1 } };
  for await (const row of attempts(mongo).find(filterOf(walked), options).sort(ORDER)) yield row;
}

/** Yields the attempts with all of their answers, also the long ones. */
export async function* resultRows(mongo: Mongo, walked: Walked): AsyncGenerator<ResultFacts & Pick<Attempt, 'scope'>> {
  const cursor = attempts(mongo).find(filterOf(walked), IN_ORDER).sort(ORDER);
  let batch: Attempt[] = [];
  for await (const attempt of cursor) {
    batch.push(attempt as Attempt);
    if (batch.length < BATCH) continue;
    yield* await Promise.all(batch.map((one) => whole(mongo, one)));
    batch = [];
  }
  yield* await Promise.all(batch.map((one) => whole(mongo, one)));
}

/** Returns the attempt with its long texts. If one was saved anew since the read, the attempt is read again. */
async function whole(mongo: Mongo, attempt: Attempt): Promise<Attempt> {
  if (await fillTexts(mongo, attempt)) return attempt;
  return (await findAttempt(mongo, attempt)) ?? attempt;
}

type GradedRow = GradedFacts & Pick<Attempt, 'studentId' | 'exam' | 'startedAt' | 'scope'>;

/** Yields the graded attempts that count, without their long texts. */
export async function* gradedRows(mongo: Mongo, examId: string, by: Examiner): AsyncGenerator<GradedRow> {
  const filter = { examId, status: 'GRADED', voidedAt: null, ...examinedBy(by) } as const;
  for await (const attempt of attempts(mongo).find(filter, IN_ORDER).sort(ORDER)) yield attempt as GradedRow;
}
