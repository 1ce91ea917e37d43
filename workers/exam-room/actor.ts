import type { ClientSession } from 'mongodb';
import { findExamAct } from '#infra/mongo/exam-room/exam-acts.ts';
import { extendDeadlines, sittingAttempts } from '#infra/mongo/exam-room/extra-time.ts';
import { type AuditRow, appendAudit, type ExamActLine, logActs } from '#infra/mongo/operator-audit.ts';
import { grantResult } from '#shared/exam-room/extra-time.ts';
import type { Actor, Effects, Outcome, Run, WorkerDeps } from '#workers/actor.ts';

/** Does what examiners do with attempts: one command each, audited with its reason. */
export function examRoomActor(deps: WorkerDeps): Actor {
  return {
    name: 'examroom',
    backoff: { baseMs: deps.config.worker.retryBaseDelayMs, capMs: 60_000 },
    handlers: { examroom: (run) => giveTime(deps, run) },
  };
}

/** Attempts per transaction. */
const STEP = 100;

/**
 * Moves the deadlines of the attempts that are open. The grant was stored with its command, so a start that this walk does not find has
 * read the grant itself. A step that a killed worker has committed is not done again, and an attempt takes an act once in any case.
 */
async function giveTime(deps: WorkerDeps, run: Run<'examroom'>): Promise<Outcome<'examroom'>> {
  const { command, session, signal } = run;
  const about = { _id: command._id, examId: command.body.examId };
  const grant = await findExamAct(deps.mongo, about, session);
  if (grant === null) return { kind: 'dead', error: new Error(`the grant of act ${command._id} does not exist`) };

  let afterId = command.progress?.afterId ?? '';
  for (;;) {
    signal.throwIfAborted();
    const step = await sittingAttempts(deps.mongo, grant, { afterId, limit: STEP, session });
    const last = step.at(-1);
    if (last === undefined) break;
    afterId = last._id;
    await run.checkpoint({ afterId }, (commit) => extendDeadlines(deps.mongo, grant, step, commit));
  }

  const counted = await findExamAct(deps.mongo, about, session);
  const result = grantResult(counted ?? grant);
  const { minutes, updated, remembered } = result;
  const detail = { minutes, updated, remembered, named: grant.studentIds?.length ?? null };
  const line = { action: 'exam.extra-time', subject: grant.examId, detail } as const;
  return { kind: 'done', result, ...audited(deps, { operator: grant.by.id, reason: grant.reason }, line) };
}

/**
 * Returns the end of an act: its last changes with its line of the audit, in one transaction, and then the line in the log. `changes`
 * returns what the line shows beside its own detail.
 */
function audited(
  { mongo, now, log }: WorkerDeps,
  by: { operator: string; reason: string },
  line: ExamActLine,
  changes: (session: ClientSession) => Promise<void> = async () => undefined,
): { effects: Effects; after: () => void } {
  let row: AuditRow | undefined;
  return {
    async effects(session) {
      await changes(session);
      row = await appendAudit(mongo, { ...by, now: now() }, line, session);
    },
    after: () => {
      if (row !== undefined) logActs(log)(row);
    },
  };
}
