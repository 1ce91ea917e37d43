import { type AttemptDeps, viewerOf } from '#api/attempt/deps.ts';
import { identity, role } from '#api/http/guards/identity.ts';
import type { Call, Guard, Identity } from '#api/route.ts';
import { findAttemptById } from '#infra/mongo/attempt/attempts.ts';
import { hasExam } from '#infra/mongo/exam-room/examined.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { isErasedAttempt } from '#shared/attempt/erased.ts';
import type { Examiner } from '#shared/attempt/extra-time.ts';
import { isExaminer } from '#shared/attempt/visibility.ts';
import type { Rejection } from '#shared/kernel/errors.ts';

/** Guards of every route of the exam room. A student, parent or service is never an examiner. */
export const EXAMINER: readonly Guard[] = [identity(), role('TEACHER', 'ADMIN')];

/** Returns the caller. Throws on a route whose guards let another role pass. */
export function examinerOf(caller: Identity): Examiner {
  const { id, role } = viewerOf(caller);
  if (role !== 'TEACHER' && role !== 'ADMIN') throw new Error('route without the examiner guard read its examiner');
  return { id, role };
}

/** Returns the exam of the path and its examiner. An exam of which the caller examines no attempt is unknown to the caller. */
export async function examOf(
  deps: AttemptDeps,
  call: Pick<Call, 'params' | 'identity'>,
): Promise<{ examId: string; by: Examiner } | Rejection> {
  const by = examinerOf(call.identity);
  const examId = call.params.examId ?? '';
  return (await hasExam(deps.mongo, examId, by)) ? { examId, by } : { rejected: 'EXAM_NOT_FOUND' };
}

/** Returns the attempt of the path and its examiner. The attempt of an erased student takes no act. */
export async function examinedAttempt(
  deps: AttemptDeps,
  call: Pick<Call, 'params' | 'identity'>,
): Promise<{ attempt: Attempt; by: Examiner } | Rejection> {
  const by = examinerOf(call.identity);
  const attempt = await findAttemptById(deps.mongo, call.params.attemptId ?? '');
  if (attempt === null || isErasedAttempt(attempt)) return { rejected: 'ATTEMPT_NOT_FOUND' };
  return isExaminer(attempt, by) ? { attempt, by } : { rejected: 'FORBIDDEN' };
}
