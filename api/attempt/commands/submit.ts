import type { AttemptDeps } from '#api/attempt/deps.ts';
import { detailOf } from '#api/attempt/detail.ts';
import { viewerOf } from '#api/attempt/viewer.ts';
import type { Call, Reply } from '#api/route.ts';
import { DETAIL_EVENTS } from '#shared/attempt/limits.ts';
import { isOwner } from '#shared/attempt/visibility.ts';
import type { SubmitRequest } from '#shared/generated/attempt.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { gradedAttempt, handInOnce } from './hand-in-once.ts';

/** Hands in for the student and waits for the grade; every later submit gets the same, whoever came first. */
export async function submitAttempt(deps: AttemptDeps, call: Call<SubmitRequest>): Promise<Reply | Rejection> {
  const attemptId = call.params.attemptId ?? '';
  const viewer = viewerOf(call.identity);
  const head = await deps.heads.find(attemptId);
  if (head === null) return { rejected: 'ATTEMPT_NOT_FOUND' };
  if (!isOwner(head, viewer)) return { rejected: 'FORBIDDEN' };
  const command = await handInOnce(deps, attemptId, 'STUDENT', null);
  const attempt = await gradedAttempt(deps, attemptId, command, call.signal);
  return {
    status: attempt.status === 'GRADED' ? 200 : 202,
    data: await detailOf(deps, attempt, viewer, DETAIL_EVENTS),
  };
}
