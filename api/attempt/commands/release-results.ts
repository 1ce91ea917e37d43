import { askWorker } from '#api/ask-worker.ts';
import type { AttemptDeps } from '#api/attempt/deps.ts';
import type { Call, Reply } from '#api/route.ts';
import { newCommand, postCommand, readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { type Release, readRelease } from '#shared/attempt/release.ts';
import type { ResultsReleasedRequest } from '#shared/generated/attempt.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';

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
