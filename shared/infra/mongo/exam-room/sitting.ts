import type { ClientSession } from 'mongodb';
import { attempts, type ExamActRow, whereKeys } from '#infra/mongo/attempt/collections.ts';
import { keepActive } from '#infra/mongo/attempt/exams.ts';
import { extendedBy } from '#infra/mongo/attempt/extra-time.ts';
import { readIn } from '#infra/mongo/causal-read.ts';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { ofMany } from '#infra/mongo/guarded-update.ts';
import type { Sitting } from '#shared/attempt/attempt.ts';
import type { TimeGrant } from '#shared/attempt/extra-time.ts';
import { examinedBy } from './examined.ts';

/** Returns the next open attempts of an act on an exam, by id after `afterId`, at most `limit`. */
export async function sittingAttempts(
  mongo: Mongo,
  { examId, by, studentIds }: Pick<ExamActRow, 'examId' | 'by' | 'studentIds'>,
  { afterId, limit, session }: { afterId: string; limit: number; session: ClientSession },
): Promise<Sitting[]> {
  const found = await attempts(mongo)
    .find(
      {
        examId,
        status: 'IN_PROGRESS',
        _id: { $gt: afterId },
        ...examinedBy(by),
        ...(studentIds === null ? {} : { studentId: { $in: studentIds } }),
      },
      {
        projection: { studentId: 1, round: 1 },
        ...readIn(session),
        sort: { _id: 1 },
        limit,
        maxTimeMS: QUERY_LIMIT_MS,
      },
    )
    .toArray();
  return found;
}

/** Moves the deadlines of one step by a grant, and keeps the exam among those that run. Returns how many have moved. */
export async function extendDeadlines(
  mongo: Mongo,
  grant: TimeGrant & Pick<ExamActRow, 'examId'>,
  step: readonly Sitting[],
  session: ClientSession,
): Promise<number> {
  const update = ofMany(extendedBy(grant));
  const { modifiedCount } = await attempts(mongo).updateMany(whereKeys(step), update.pipeline, { session });

  const options = { session, projection: { deadlineAt: 1 }, sort: { deadlineAt: -1 } } as const;
  const latest = await attempts(mongo).findOne({ ...whereKeys(step), deadlineAt: { $ne: null } }, options);
  if (latest !== null) await keepActive(mongo, { ...grant, deadlineAt: latest.deadlineAt }, session);
  return modifiedCount;
}
