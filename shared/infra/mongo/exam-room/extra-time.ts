import type { ClientSession } from 'mongodb';
import { attempts, type ExamActRow, examActs, whereKey, whereKeys } from '#infra/mongo/attempt/collections.ts';
import { extendedBy } from '#infra/mongo/attempt/extra-time.ts';
import { readIn } from '#infra/mongo/causal-read.ts';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { ofMany } from '#infra/mongo/guarded-update.ts';
import type { AttemptKey } from '#shared/attempt/attempt.ts';
import { examinedBy } from './examined.ts';

/** Returns the next open attempts of an act on an exam, by id after `afterId`, at most `limit`. */
export async function sittingAttempts(
  mongo: Mongo,
  { examId, by, studentIds }: Pick<ExamActRow, 'examId' | 'by' | 'studentIds'>,
  { afterId, limit, session }: { afterId: string; limit: number; session: ClientSession },
): Promise<AttemptKey[]> {
  const found = await attempts(mongo)
    .find(
      {
        examId,
        status: 'IN_PROGRESS',
        _id: { $gt: afterId },
        ...examinedBy(by),
        ...(studentIds === null ? {} : { studentId: { $in: studentIds } }),
      },
      { projection: { studentId: 1 }, ...readIn(session), sort: { _id: 1 }, limit, maxTimeMS: QUERY_LIMIT_MS },
    )
    .toArray();
  return found.map(whereKey);
}

/** Moves the deadlines of one step, and counts in the row of the act whom it has met. Each attempt takes an act once. */
export async function extendDeadlines(
  mongo: Mongo,
  act: ExamActRow & { minutes: number },
  step: readonly AttemptKey[],
  session: ClientSession,
): Promise<void> {
  const update = ofMany(extendedBy(act));
  const { modifiedCount } = await attempts(mongo).updateMany(whereKeys(step), update.pipeline, { session });
  const { _id, examId } = act;
  await examActs(mongo).updateOne(
    { _id, examId },
    { $inc: { updated: modifiedCount, sitting: step.length } },
    { session },
  );
}
