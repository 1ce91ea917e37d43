import type { ClientSession } from 'mongodb';
import { fillTexts } from '#infra/mongo/attempt/attempts.ts';
import { attempts, type RegradeRow, whereKeys } from '#infra/mongo/attempt/collections.ts';
import { readIn } from '#infra/mongo/causal-read.ts';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { guardedUpdate, ofMany, Stale } from '#infra/mongo/guarded-update.ts';
import type { Attempt, AttemptKey } from '#shared/attempt/attempt.ts';
import type { Examiner } from '#shared/attempt/extra-time.ts';
import { examinedBy } from './examined.ts';

/** Which attempts of an exam a walk meets. Those of erased students keep their grades: their texts are gone. */
interface Met {
  statuses: readonly Attempt['status'][];
  afterId: string;
  limit: number;
  session: ClientSession;
}

type Regrade = Pick<RegradeRow, 'examId' | 'by' | 'appliedBy' | 'appliedAt'>;

/** Returns the filter of the attempts that a regrade concerns, as `bindingCorrections` decides for one of them. */
function concernedBy({ examId, by, appliedBy = by, appliedAt }: Regrade) {
  return {
    examId,
    erasedAt: null,
    ...(appliedAt === null ? {} : { startedAt: { $lt: appliedAt } }),
    $and: [examinedBy(by), examinedBy(appliedBy)],
  };
}

/** Returns true if the caller examines every attempt that a regrade concerns, and so may apply or discard it. */
export async function mayMove(mongo: Mongo, regrade: Regrade, caller: Examiner): Promise<boolean> {
  const { id, role } = caller;
  if (role === 'ADMIN' || (id === regrade.by.id && role === regrade.by.role)) return true;
  const other = await attempts(mongo).findOne(
    { ...concernedBy(regrade), 'scope.createdById': { $ne: id }, 'scope.resultViewerTeacherIds': { $ne: id } },
    { hint: 'of_exam', maxTimeMS: QUERY_LIMIT_MS * 4 },
  );
  return other === null;
}

/** Returns the next attempts of a regrade, by id after `afterId`, whole: at most `limit`. */
export async function nextAttempts(
  mongo: Mongo,
  regrade: Regrade,
  { statuses, afterId, limit, session }: Met,
): Promise<Attempt[]> {
  const found = (await attempts(mongo)
    .find(
      { ...concernedBy(regrade), _id: { $gt: afterId }, status: { $in: statuses } },
      { ...readIn(session), hint: 'of_exam', sort: { _id: 1 }, limit, maxTimeMS: QUERY_LIMIT_MS * 4 },
    )
    .toArray()) as Attempt[];
  for (const attempt of found) {
    if (!(await fillTexts(mongo, attempt, session))) throw new Stale(`attempt ${attempt._id}`);
  }
  return found;
}

/**
 * Lets a grade that is being decided on these submitted attempts be decided again, in the caller's transaction: it may have read the
 * corrections before this regrade was among them. Throws Stale if one of them was graded since it was read.
 */
export async function touchSubmitted(
  mongo: Mongo,
  found: readonly AttemptKey[],
  session: ClientSession,
): Promise<void> {
  if (found.length === 0) return;
  const { pipeline } = ofMany(guardedUpdate([{ $eq: ['$status', 'SUBMITTED'] }]));
  const { modifiedCount } = await attempts(mongo).updateMany(whereKeys(found), pipeline, { session });
  if (modifiedCount !== found.length) throw new Stale('submitted attempts of a regrade');
}
