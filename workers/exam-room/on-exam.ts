import type { ClientSession } from 'mongodb';
import type { ExamActRow } from '#infra/mongo/attempt/collections.ts';
import { submitAll } from '#infra/mongo/attempt/submit.ts';
import { countMet, findExamAct } from '#infra/mongo/exam-room/exam-acts.ts';
import { extendDeadlines, sittingAttempts } from '#infra/mongo/exam-room/sitting.ts';
import type { Sitting } from '#shared/attempt/attempt.ts';
import { grantResult } from '#shared/exam-room/extra-time.ts';
import type { CommandRef } from '#shared/kernel/command.ts';
import type { Outcome, Run, WorkerDeps } from '#workers/actor.ts';
import { audited } from './audit.ts';

/** Attempts per transaction. */
const STEP = 100;

/** Change that an act makes to the open attempts of one step, in their transaction. Returns how many it has changed. */
type OnStep = (act: ExamActRow, step: readonly Sitting[], session: ClientSession) => Promise<number>;

/**
 * Walks the open attempts of an act by their ids, and counts in its row whom it has met. A step that a killed worker has committed is not
 * done again, and an attempt takes an act once in any case. Returns the row at the end, or null if it does not exist.
 */
async function walk(deps: WorkerDeps, run: Run<'examroom'>, onStep: OnStep): Promise<ExamActRow | null> {
  const { command, session, signal } = run;
  if (!('examId' in command.body)) return null;
  const about = { _id: command._id, examId: command.body.examId };
  const act = await findExamAct(deps.mongo, about, session);
  if (act === null) return null;

  let afterId = command.progress?.afterId ?? '';
  for (;;) {
    signal.throwIfAborted();
    const step = await sittingAttempts(deps.mongo, act, { afterId, limit: STEP, session });
    const last = step.at(-1);
    if (last === undefined) return findExamAct(deps.mongo, about, session);
    afterId = last._id;
    await run.checkpoint({ afterId }, async (commit) => {
      const updated = await onStep(act, step, commit);
      await countMet(deps.mongo, act, { updated, sitting: step.length }, commit);
    });
  }
}

/**
 * Moves the deadlines of the attempts that are open. The grant was stored with its command, so a start that this walk does not find has
 * read the grant itself.
 */
export async function giveTime(deps: WorkerDeps, run: Run<'examroom'>): Promise<Outcome<'examroom'>> {
  const grant = await walk(deps, run, (act, step, session) => extendDeadlines(deps.mongo, act, step, session));
  if (grant === null) return lostRow(run);
  const result = grantResult(grant);
  const { minutes, updated, remembered } = result;
  const detail = { minutes, updated, remembered, named: grant.studentIds?.length ?? null };
  return {
    kind: 'done',
    result,
    ...audited(deps, grant, { action: 'exam.extra-time', subject: grant.examId, detail }),
  };
}

/** Submits the attempts that are open, and rings for their gradings at the end; the poll finds those of earlier steps. */
export async function handInAll(deps: WorkerDeps, run: Run<'examroom'>): Promise<Outcome<'examroom'>> {
  const isWanted = await deps.wanted.wants('attempt.submitted');
  const rings: CommandRef[] = [];
  const act = await walk(deps, run, async ({ _id: actId, by, reason }, step, session) => {
    const stated = { actId, by: by.id, reason };
    const terms = {
      source: 'TEACHER',
      act: stated,
      overdueByMs: null,
      maxAttempts: deps.config.worker.maxAttempts,
    } as const;
    const now = deps.now();
    const wanted = step.map((attempt) => ({ attempt, ...terms, now, isWanted }));
    const gradings = (await submitAll(deps.mongo, wanted, session)).flatMap((one) =>
      one.kind === 'submitted' ? one.command : [],
    );
    rings.push(...gradings);
    return gradings.length;
  });
  if (act === null) return lostRow(run);
  const { _id, examId, studentIds, updated: submitted } = act;
  const detail = { submitted, named: studentIds?.length ?? null };
  return {
    kind: 'done',
    result: { id: _id, submitted },
    ...audited(
      deps,
      act,
      { action: 'exam.submit-all', subject: examId, detail },
      { rings: () => rings.forEach(deps.ring) },
    ),
  };
}

function lostRow({ command }: Run<'examroom'>): Outcome<'examroom'> {
  return { kind: 'dead', error: new Error(`the row of act ${command._id} does not exist`) };
}
