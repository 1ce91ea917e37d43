import type { ExamActKind } from '#shared/exam-room/exam-act.ts';
import type { Actor, Outcome, Run, WorkerDeps } from '#workers/actor.ts';
import { handIn, reopen, restore, voidOne } from './on-attempt.ts';
import { giveTime, handInAll } from './on-exam.ts';
import { applyRegrade, discardRegrade, previewRegrade } from './regrade.ts';

type Act = (deps: WorkerDeps, run: Run<'examroom'>) => Promise<Outcome<'examroom'>>;

const ACTS: Readonly<Record<ExamActKind, Act>> = {
  EXTRA_TIME: giveTime,
  SUBMIT: handIn,
  SUBMIT_ALL: handInAll,
  REOPEN: reopen,
  VOID: voidOne,
  RESTORE: restore,
  REGRADE: previewRegrade,
  REGRADE_APPLY: applyRegrade,
  REGRADE_DISCARD: discardRegrade,
};

/** Does what examiners do with attempts: one command each, audited with its reason. */
export function examRoomActor(deps: WorkerDeps): Actor {
  return {
    name: 'examroom',
    backoff: { baseMs: deps.config.worker.retryBaseDelayMs, capMs: 60_000 },
    handlers: { examroom: (run) => ACTS[run.command.body.kind](deps, run) },
  };
}
