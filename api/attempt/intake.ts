import { askWorker } from '#api/ask-worker.ts';
import type { Call, Reply } from '#api/route.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { postCommand, readEnd } from '#infra/mongo/mailbox/mailbox.ts';
import { handoffOrder, releaseOrder } from '#shared/attempt/commands.ts';
import { copyHandoff } from '#shared/attempt/handoff.ts';
import { DETAIL_EVENTS } from '#shared/attempt/limits.ts';
import { readRelease } from '#shared/attempt/release.ts';
import type { EssayGradeHandoffRequest, ResultsReleasedRequest } from '#shared/generated/attempt.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { type AttemptDeps, detailOf, knownAttempt, SERVICE_VIEWER } from './deps.ts';

/**
 * Takes a grade by hand as a command, unique per attempt and source event, and waits for its worker. Only the sender
 * whose call made the command is told `applied: true`; everybody else met a replay.
 */
export async function handOffGrade(
  deps: AttemptDeps,
  call: Call<EssayGradeHandoffRequest>,
): Promise<Reply | Rejection> {
  const attemptId = call.params.attemptId ?? '';
  if ((await deps.heads.find(attemptId)) === null) return { rejected: 'ATTEMPT_NOT_FOUND' };
  const handoff = copyHandoff(call.body);
  const { sourceEventId } = handoff;
  const terms = { maxAttempts: deps.commandAttempts, now: deps.now() };
  const { command, created } = await postCommand(
    deps.mongo,
    newCommand({ ...handoffOrder(attemptId, handoff), ...terms }),
  );
  await askWorker(deps, command, { timeoutMs: deps.settings.gradingWaitMs, signal: call.signal });
  const end = await readEnd(deps.mongo, command);
  if (end.kind === 'rejected') return end.rejection;
  const attempt = await knownAttempt(deps, attemptId);
  const applied = end.kind === 'done' ? created : null;
  return {
    status: applied === null ? 202 : 200,
    data: { attempt: await detailOf(deps, attempt, SERVICE_VIEWER, DETAIL_EVENTS), applied, sourceEventId },
  };
}

/** Takes a release as a command, unique per source event, and waits for its worker; a replay changed nothing. */
export async function releaseResults(
  deps: AttemptDeps,
  call: Call<ResultsReleasedRequest>,
): Promise<Reply | Rejection> {
  const release = readRelease(call.body);
  if (isRejection(release)) return release;
  const { sourceEventId } = release;
  const terms = { maxAttempts: deps.commandAttempts, now: deps.now() };
  const { command, created } = await postCommand(deps.mongo, newCommand({ ...releaseOrder(release), ...terms }));
  await askWorker(deps, command, { timeoutMs: deps.settings.gradingWaitMs, signal: call.signal });
  const end = await readEnd(deps.mongo, command);
  if (end.kind !== 'done') {
    return { status: 202, data: { updatedAttempts: null, queuedNotifications: null, sourceEventId } };
  }
  const counts = created ? end.result : { updatedAttempts: 0, queuedNotifications: 0 };
  return { status: 200, data: { ...counts, sourceEventId } };
}
