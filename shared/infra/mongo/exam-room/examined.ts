import type { Filter } from 'mongodb';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import type { Examiner } from '#shared/attempt/extra-time.ts';

/** Returns the filter of the attempts that a caller examines, as `isExaminer` decides for one of them. */
export function examinedBy({ id, role }: Examiner): Filter<Attempt> {
  return role === 'ADMIN' ? {} : { $or: [{ 'scope.createdById': id }, { 'scope.resultViewerTeacherIds': id }] };
}

/** Returns true if the exam has an attempt that the caller examines. */
export async function hasExam(mongo: Mongo, examId: string, by: Examiner): Promise<boolean> {
  const found = await attempts(mongo).findOne(
    { examId, ...examinedBy(by) },
    { projection: { _id: 1 }, hint: 'of_exam', maxTimeMS: QUERY_LIMIT_MS },
  );
  return found !== null;
}
