import { type AttemptDeps, detailReply, viewerOf } from '#api/attempt/deps.ts';
import type { Call, Reply, TextReply } from '#api/route.ts';
import { findAttemptOf } from '#infra/mongo/attempt/attempts.ts';
import { inCausalOrder } from '#infra/mongo/causal-read.ts';
import { readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { DETAIL_EVENTS } from '#shared/attempt/limits.ts';
import { examActRef } from '#shared/exam-room/exam-act.ts';
import type { ReasonedRequest, ReopenRequest } from '#shared/generated/exam-room.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { actOnAttempt } from './acts.ts';
import { examinedAttempt } from './examiner.ts';

type Answer = Promise<Reply | TextReply | Rejection>;

/** Opens a submitted attempt again, for some minutes from now. */
export function reopenAttempt(deps: AttemptDeps, call: Call<ReopenRequest>): Answer {
  return actThenRead(deps, call, { kind: 'REOPEN', minutes: call.body.minutes, statedReason: call.body.reason });
}

/** Makes an attempt count no longer. */
export function voidAttempt(deps: AttemptDeps, call: Call<ReasonedRequest>): Answer {
  return actThenRead(deps, call, { kind: 'VOID', statedReason: call.body.reason });
}

/** Makes a voided attempt count again. */
export function restoreAttempt(deps: AttemptDeps, call: Call<ReasonedRequest>): Answer {
  return actThenRead(deps, call, { kind: 'RESTORE', statedReason: call.body.reason });
}

interface Act {
  kind: 'REOPEN' | 'VOID' | 'RESTORE';
  minutes?: number;
  statedReason: string;
}

/** Acts on the attempt of the path, and returns the attempt as it then is. */
async function actThenRead(deps: AttemptDeps, call: Call<unknown>, act: Act): Answer {
  const found = await examinedAttempt(deps, call);
  if (isRejection(found)) return found;
  const { attempt, by } = found;
  const end = await actOnAttempt(deps, call, { ...act, attempt, by });
  if (end.kind === 'late') return end.reply;
  if (end.kind === 'rejected') return end.rejection;
  const after = await inCausalOrder(deps.mongo, async (session) => {
    await readCommand(deps.mongo, examActRef(end.id), session);
    return findAttemptOf(deps.mongo, { attemptId: attempt._id, studentId: attempt.studentId }, session);
  });
  if (after === null) return { rejected: 'ATTEMPT_NOT_FOUND' };
  return detailReply(deps, after, viewerOf(call.identity), { status: 200, eventLimit: DETAIL_EVENTS });
}
