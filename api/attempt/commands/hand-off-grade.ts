import { askWorker } from '#api/ask-worker.ts';
import type { AttemptDeps } from '#api/attempt/deps.ts';
import { detailOf } from '#api/attempt/detail.ts';
import { SERVICE_VIEWER } from '#api/attempt/viewer.ts';
import type { Call, Reply } from '#api/route.ts';
import { findAttempt } from '#infra/mongo/attempt/attempts.ts';
import { handoffKey } from '#infra/mongo/attempt/grade.ts';
import { newCommand, postCommand, readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { copyHandoff, type EssayHandoff } from '#shared/attempt/handoff.ts';
import { DETAIL_EVENTS } from '#shared/attempt/limits.ts';
import type { EssayGradeHandoffRequest } from '#shared/generated/attempt.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';

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
