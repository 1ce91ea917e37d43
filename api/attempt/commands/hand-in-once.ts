import { askWorker } from '#api/ask-worker.ts';
import type { AttemptDeps } from '#api/attempt/deps.ts';
import { findAttempt } from '#infra/mongo/attempt/attempts.ts';
import { type GradingBody, gradingKey, handIn } from '#infra/mongo/attempt/hand-in.ts';
import { findLive } from '#infra/mongo/mailbox/mailbox.ts';
import type { Attempt, SubmitSource } from '#shared/attempt/attempt.ts';
import type { Command } from '#shared/kernel/command.ts';

/**
 * Hands the attempt in, unless it is handed in already, and gives the command that grades it: the one grading this
 * attempt ever has. Null where the attempt was in no state to be handed in; `overdueByMs` 0 demands a passed deadline.
 */
export async function handInOnce(
  deps: AttemptDeps,
  attemptId: string,
  source: SubmitSource,
  overdueByMs: number | null,
): Promise<Command | null> {
  const command = await handIn(deps.mongo, {
    attemptId,
    source,
    overdueByMs,
    maxAttempts: deps.commandAttempts,
    now: deps.now(),
    budgetMs: deps.settings.startBudgetMs,
  });
  return command ?? findLive<GradingBody>(deps.mongo, 'grading', gradingKey(attemptId));
}

/** Waits for the grade within the bound; the attempt as it then stands, SUBMITTED when the worker is late. */
export async function gradedAttempt(
  deps: AttemptDeps,
  attemptId: string,
  command: Command | null,
  signal: AbortSignal,
): Promise<Attempt> {
  if (command !== null) await askWorker(deps, command, { timeoutMs: deps.settings.gradingWaitMs, signal });
  const attempt = await findAttempt(deps.mongo, attemptId);
  if (attempt === null) throw new Error(`attempt ${attemptId} vanished`);
  return attempt;
}
