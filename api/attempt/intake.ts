import { ringAndWait } from '#api/ring-and-wait.ts';
import type { Call, Reply } from '#api/route.ts';
import { findAttemptById, findAttemptOf } from '#infra/mongo/attempt/attempts.ts';
import { storeRelease } from '#infra/mongo/attempt/release.ts';
import { inCausalOrder } from '#infra/mongo/causal-read.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { postCommand, readEnd } from '#infra/mongo/mailbox/mailbox.ts';
import { FRONT_DOOR_BUDGET_MS } from '#infra/mongo/transaction.ts';
import type { AttemptKey } from '#shared/attempt/attempt.ts';
import { handoffOrder } from '#shared/attempt/commands.ts';
import { copyHandoff } from '#shared/attempt/handoff.ts';
import { DETAIL_EVENTS } from '#shared/attempt/limits.ts';
import { readRelease } from '#shared/attempt/release.ts';
import { isExaminer, type Viewer } from '#shared/attempt/visibility.ts';
import type { EssayGradeHandoffRequest, ResultsReleasedRequest } from '#shared/generated/attempt.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { type AttemptDeps, detailOf, SERVICE_VIEWER, viewerOf } from './deps.ts';

/**
 * Stores a manual grade as a command, unique per attempt and source event, and waits for its worker. Returns
 * `applied: true` only to the call that created the command and whose grade now counts; every other call is a replay. If a call names an actor, the
 * actor must be an examiner of the attempt, and the reply shows what that actor may see.
 */
export async function receiveHandoff(
  deps: AttemptDeps,
  call: Call<EssayGradeHandoffRequest>,
): Promise<Reply | Rejection> {
  const attemptId = call.params.attemptId ?? '';
  const found = await graderOf(deps, call, attemptId);
  if (isRejection(found)) return found;
  const { key, viewer } = found;
  const handoff = copyHandoff(call.body, call.identity.actor?.id);
  const { sourceEventId } = handoff;
  const terms = { maxAttempts: deps.commandAttempts, now: deps.now() };
  const { command, created } = await postCommand(deps.mongo, newCommand({ ...handoffOrder(key, handoff), ...terms }));
  await ringAndWait(deps, command, { timeoutMs: deps.settings.gradingWaitMs, signal: call.signal });
  const { end, attempt } = await inCausalOrder(deps.mongo, async (session) => ({
    end: await readEnd(deps.mongo, command, session),
    // The erasure of the student may have replaced the key since it was read.
    attempt: await findAttemptOf(deps.mongo, { attemptId, studentId: key.studentId }, session),
  }));
  if (end.kind === 'rejected') return end.rejection;
  if (attempt === null) return { rejected: 'ATTEMPT_NOT_FOUND' };
  const supersededBy = end.kind === 'done' ? end.result.supersededBy : undefined;
  const applied = end.kind === 'done' ? created && supersededBy === undefined : null;
  const detail = await detailOf(deps, attempt, viewer, DETAIL_EVENTS);
  return {
    status: applied === null ? 202 : 200,
    data: { attempt: detail, applied, sourceEventId, ...(supersededBy === undefined ? {} : { supersededBy }) },
  };
}

/**
 * Returns the key of the attempt and the sender of the grade: the examiner that the gateway names, or the service itself if it names no
 * actor. Reads the student anew, because a cached one may be erased, and the command stores the id.
 */
async function graderOf(
  deps: AttemptDeps,
  { identity }: Call,
  attemptId: string,
): Promise<{ key: AttemptKey; viewer: Viewer } | Rejection> {
  if (identity.actor === undefined) {
    const key = await deps.attemptRefs.readById(attemptId);
    return key === null ? { rejected: 'ATTEMPT_NOT_FOUND' } : { key, viewer: SERVICE_VIEWER };
  }
  const viewer = viewerOf(identity);
  const attempt = await findAttemptById(deps.mongo, attemptId);
  if (attempt === null) return { rejected: 'ATTEMPT_NOT_FOUND' };
  // The teacher scope of an attempt never changes, so the worker need not check it again.
  return isExaminer(attempt, viewer) ? { key: attempt, viewer } : { rejected: 'FORBIDDEN' };
}

/** Stores a release with its command, unique per source event, and waits for its worker. A replay returns counts of 0. */
export async function receiveRelease(
  deps: AttemptDeps,
  call: Call<ResultsReleasedRequest>,
): Promise<Reply | Rejection> {
  const release = readRelease(call.body);
  if (isRejection(release)) return release;
  const { sourceEventId } = release;
  const terms = { maxAttempts: deps.commandAttempts, now: deps.now(), budgetMs: FRONT_DOOR_BUDGET_MS };
  const { command, created } = await storeRelease(deps.mongo, release, terms);
  await ringAndWait(deps, command, { timeoutMs: deps.settings.gradingWaitMs, signal: call.signal });
  const end = await inCausalOrder(deps.mongo, (session) => readEnd(deps.mongo, command, session));
  if (end.kind !== 'done') {
    return { status: 202, data: { updatedAttempts: null, queuedNotifications: null, sourceEventId } };
  }
  const counts = created ? end.result : { updatedAttempts: 0, queuedNotifications: 0 };
  return { status: 200, data: { ...counts, sourceEventId } };
}
