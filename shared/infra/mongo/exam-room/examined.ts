import type { Filter } from 'mongodb';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { exams } from '#infra/mongo/attempt/exams.ts';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import type { Examiner } from '#shared/attempt/extra-time.ts';

/** Returns the filter of the attempts that a caller examines, as `isExaminer` decides for one of them. */
export function examinedBy({ id, role }: Examiner): Filter<Attempt> {
  return role === 'ADMIN' ? {} : { $or: [{ 'scope.createdById': id }, { 'scope.resultViewerTeacherIds': id }] };
}

/**
 * Returns true if the exam has an attempt that the caller examines.
 *
 * The row of the exam names the teachers of all its attempts, and perhaps others. So a teacher whom it does not name costs one read, and not
 * a scan of a crowd. An exam without a row has attempts of front doors of the release before alone.
 */
export async function hasExam(mongo: Mongo, examId: string, by: Examiner): Promise<boolean> {
  if (by.role !== 'ADMIN') {
    const row = await exams(mongo).findOne(
      { _id: examId },
      { projection: { examinerIds: 1 }, maxTimeMS: QUERY_LIMIT_MS },
    );
    if (row !== null && !row.examinerIds.includes(by.id)) return false;
  }
  // Without a projection: the stand-in in Rust would project all attempts of the exam to return one.
  const found = await attempts(mongo).findOne(
    { examId, ...examinedBy(by) },
    { hint: 'of_exam', maxTimeMS: QUERY_LIMIT_MS },
  );
  return found !== null;
}

/** Returns those of these students who have an attempt of the exam that the caller examines. */
export async function examinedAmong(
  mongo: Mongo,
  { examId, by }: { examId: string; by: Examiner },
  studentIds: readonly string[],
): Promise<Set<string>> {
  if (studentIds.length === 0) return new Set();
  const found = attempts(mongo).find(
    { examId, studentId: { $in: studentIds }, ...examinedBy(by) },
    { projection: { _id: 0, studentId: 1 }, hint: 'attempt_number_of_student', maxTimeMS: QUERY_LIMIT_MS },
  );
  const examined = new Set<string>();
  for await (const { studentId } of found) examined.add(studentId);
  return examined;
}
