import type { AttemptDeps } from '#api/attempt/deps.ts';
import { gradedReply, gradingOf, submitAttempt } from '#api/attempt/submit.ts';
import type { Call, Reply, TextReply } from '#api/route.ts';
import type { SubmitRequest } from '#shared/generated/attempt.ts';
import type { SubmitAllRequest } from '#shared/generated/exam-room.ts';
import { type FaultDetail, isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { actOnAttempt, actOnExam, actReply } from './acts.ts';
import { examinedAttempt, examOf } from './examiner.ts';
import { namedStudents } from './extra-time.ts';

/** Submits an attempt for its student, or for an examiner. The reply of both is the graded attempt. */
export async function submitOrHandIn(
  deps: AttemptDeps,
  call: Call<SubmitRequest>,
): Promise<Reply | TextReply | Rejection> {
  const { source, reason } = call.body;
  if (call.identity.actor?.role === 'STUDENT') {
    const details: FaultDetail[] = [
      ...(source === 'TEACHER' ? [{ path: '/source', message: 'must be one of STUDENT' }] : []),
      ...(reason === undefined ? [] : [{ path: '/reason', message: 'is for examiners alone' }]),
    ];
    return details.length > 0 ? { rejected: 'VALIDATION_FAILED', details } : submitAttempt(deps, call);
  }
  // Only its student may submit an attempt as the student.
  if (source !== 'TEACHER') return { rejected: 'FORBIDDEN' };
  if (call.identity.idempotency === undefined) return { rejected: 'IDEMPOTENCY_KEY_REQUIRED' };
  if (reason === undefined) {
    return { rejected: 'VALIDATION_FAILED', details: [{ path: '/reason', message: 'is required' }] };
  }
  return handIn(deps, call, reason);
}

/** Submits an attempt for an examiner and waits for its grade, as for the submit of its student. */
async function handIn(
  deps: AttemptDeps,
  call: Call<SubmitRequest>,
  statedReason: string,
): Promise<Reply | TextReply | Rejection> {
  const found = await examinedAttempt(deps, call);
  if (isRejection(found)) return found;
  const { attempt, by } = found;
  const end = await actOnAttempt(deps, call, { kind: 'SUBMIT', attempt, by, statedReason });
  if (end.kind === 'rejected') return end.rejection;
  return gradedReply(deps, call, attempt, await gradingOf(deps, attempt));
}

/** Submits the open attempts of an exam, or those of the named students. */
export async function submitAll(deps: AttemptDeps, call: Call<SubmitAllRequest>): Promise<Reply | Rejection> {
  const found = await examOf(deps, call);
  if (isRejection(found)) return found;
  const studentIds = await namedStudents(deps, call.body.studentIds);
  const act = { kind: 'SUBMIT_ALL', ...found, minutes: 0, studentIds, reason: call.body.reason } as const;
  return actReply(await actOnExam(deps, call, act));
}
