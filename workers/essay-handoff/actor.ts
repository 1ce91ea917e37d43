import { findAttemptOf } from '#infra/mongo/attempt/attempts.ts';
import { awaitGrade, storeHandoff } from '#infra/mongo/attempt/grade.ts';
import { emptyLateCommand } from '#infra/mongo/person/rewrite.ts';
import { isErasedAttempt } from '#shared/attempt/erased.ts';
import { decideHandoff } from '#shared/attempt/handoff.ts';
import { backoff } from '#shared/kernel/time.ts';
import type { Actor, Outcome, Run, WorkerDeps } from '#workers/actor.ts';

/**
 * Backoff of a handoff while its attempt is not graded yet. The wait doubles after each check, because a late grade may need an
 * operator. The grading wakes the handoff (`makeHandoffsDue`), so a long wait delays nothing. If the wake is lost, the backoff ends.
 */
const GRADE_BACKOFF = { baseMs: 250, capMs: 30_000, random: 0 };

/** Applies a score given by hand, once per attempt and source event: stores the score, the recomputed totals and the event. */
export function essayHandoffActor(deps: WorkerDeps): Actor {
  return {
    name: 'essayhandoff',
    backoff: { baseMs: deps.config.worker.retryBaseDelayMs, capMs: 60_000 },
    handlers: { essayhandoff: (run) => applyHandoff(deps, run) },
  };
}

async function applyHandoff(
  deps: WorkerDeps,
  { command, checkpoint, session }: Run<'essayhandoff'>,
): Promise<Outcome<'essayhandoff'>> {
  const { body, fence } = command;
  const { attemptId, handoff } = body;
  const attempt = await findAttemptOf(deps.mongo, body, session);
  if (attempt === null) return { kind: 'rejected', result: { rejected: 'ATTEMPT_NOT_FOUND' } };
  // The front door read the student before the erasure. No later erasure would find the command.
  if (isErasedAttempt(attempt)) await checkpoint(null, (commit) => emptyLateCommand(deps.mongo, command, commit));
  const now = new Date(deps.now());
  const decision = decideHandoff(attempt, await deps.gradingPaper(attempt, session), handoff, now);
  switch (decision.kind) {
    case 'refuse':
      return { kind: 'rejected', result: decision.rejection };
    case 'wait':
      // Waiting spends no attempt, so the fence, which counts the claims, is the number of checks so far.
      return {
        kind: 'snooze',
        afterMs: backoff({ ...GRADE_BACKOFF, attempt: fence }),
        effects: (commit) => awaitGrade(deps.mongo, attempt, handoff.sourceEventId, commit),
      };
    case 'apply':
      return {
        kind: 'done',
        result: { attemptId },
        effects: (commit) => storeHandoff(deps.mongo, attempt, decision, now, commit),
      };
    case 'supersede':
      return {
        kind: 'done',
        result: { attemptId, supersededBy: decision.supersededBy },
        effects: (commit) => storeHandoff(deps.mongo, attempt, decision, now, commit),
      };
  }
}
