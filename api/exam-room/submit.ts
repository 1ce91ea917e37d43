import type { AttemptDeps } from '#api/attempt/deps.ts';
import { gradedReply, submitAttempt } from '#api/attempt/submit.ts';
import type { Call, Reply, TextReply } from '#api/route.ts';
import { inCausalOrder } from '#infra/mongo/causal-read.ts';
import { findLive, readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { gradingKey } from '#shared/attempt/commands.ts';
import { type ExamActResult, examActRef } from '#shared/exam-room/exam-act.ts';
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
  const until = performance.now() + deps.settings.gradingWaitMs;
  const end = await actOnAttempt(deps, call, { kind: 'SUBMIT', attempt, by, statedReason });
  if (end.kind === 'rejected') return end.rejection;
  if (end.kind === 'late') return gradedReply(deps, call, attempt, null);
  const [act, sitting] = [examActRef(end.id), { ...attempt, round: submittedRound(end.result) }];
  const grading = await inCausalOrder(deps.mongo, async (session) => {
    // The act and the grading that it has posted are on different shards: a read of the grading alone might miss it.
    await readCommand(deps.mongo, act, session);
    return findLive(deps.mongo, 'grading', gradingKey(sitting), session);
  });
  const timeoutMs = Math.max(0, until - performance.now());
  return gradedReply(deps, call, attempt, grading, { act, round: sitting.round, timeoutMs });
}

/** Returns the round that an act has submitted. */
function submittedRound(result: ExamActResult): number {
  return ('attemptId' in result ? result.round : undefined) ?? 1;
}

/** Submits the open attempts of an exam, or those of the named students. */
export async function submitAll(deps: AttemptDeps, call: Call<SubmitAllRequest>): Promise<Reply | Rejection> {
  const found = await examOf(deps, call);
  if (isRejection(found)) return found;
  const studentIds = await namedStudents(deps, call.body.studentIds);
  const act = { kind: 'SUBMIT_ALL', ...found, minutes: 0, studentIds, reason: call.body.reason } as const;
  return actReply(await actOnExam(deps, call, act));
}
