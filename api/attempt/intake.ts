import { askWorker } from '#api/ask-worker.ts';
import type { Call, Reply } from '#api/route.ts';
import { findAttempt } from '#infra/mongo/attempt/attempts.ts';
import { handoffKey } from '#infra/mongo/attempt/grade.ts';
import { newCommand, postCommand, readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { copyHandoff, type EssayHandoff } from '#shared/attempt/handoff.ts';
import { DETAIL_EVENTS } from '#shared/attempt/limits.ts';
import { type Release, readRelease } from '#shared/attempt/release.ts';
import type { EssayGradeHandoffRequest, ResultsReleasedRequest } from '#shared/generated/attempt.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { type AttemptDeps, detailOf, SERVICE_VIEWER } from './deps.ts';

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
  const { command, created } = await postCommand<{ attemptId: string; handoff: EssayHandoff }>(
    deps.mongo,
    newCommand({
      queue: 'essayhandoff',
      key: handoffKey(attemptId, sourceEventId),
      subject: attemptId,
      body: { attemptId, handoff },
      maxAttempts: deps.commandAttempts,
      now: deps.now(),
    }),
  );
  await askWorker(deps, command, { timeoutMs: deps.settings.gradingWaitMs, signal: call.signal });
  const settled = await readCommand(deps.mongo, command.queue, command._id);
  if (settled?.status === 'REJECTED' && isRejection(settled.result)) return settled.result;
  const attempt = await findAttempt(deps.mongo, attemptId);
  if (attempt === null) throw new Error(`attempt ${attemptId} vanished`);
  const applied = settled?.status === 'DONE' ? created : null;
  return {
    status: applied === null ? 202 : 200,
    data: { attempt: await detailOf(deps, attempt, SERVICE_VIEWER, DETAIL_EVENTS), applied, sourceEventId },
  };
}

/** What a finished release counted; kept on its command. */
interface ReleaseCounts {
  updatedAttempts: number;
  queuedNotifications: number;
}

/** Takes a release as a command, unique per source event, and waits for its worker; a replay changed nothing. */
export async function releaseResults(
  deps: AttemptDeps,
  call: Call<ResultsReleasedRequest>,
): Promise<Reply | Rejection> {
  const release = readRelease(call.body);
  if (isRejection(release)) return release;
  const { sourceEventId, examId } = release;
  const { command, created } = await postCommand<Release>(
    deps.mongo,
    newCommand({
      queue: 'resultsrelease',
      key: `resultsrelease:${sourceEventId}`,
      subject: examId,
      body: release,
      maxAttempts: deps.commandAttempts,
      now: deps.now(),
    }),
  );
  await askWorker(deps, command, { timeoutMs: deps.settings.gradingWaitMs, signal: call.signal });
  const settled = await readCommand(deps.mongo, command.queue, command._id);
  if (settled?.status !== 'DONE') {
    return { status: 202, data: { updatedAttempts: null, queuedNotifications: null, sourceEventId } };
  }
  const counts = created ? (settled.result as ReleaseCounts) : { updatedAttempts: 0, queuedNotifications: 0 };
  return { status: 200, data: { ...counts, sourceEventId } };
}
