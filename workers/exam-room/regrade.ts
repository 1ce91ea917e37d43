import type { RegradeLine, RegradeRow } from '#infra/mongo/attempt/collections.ts';
import { appliedRegrades } from '#infra/mongo/attempt/corrections.ts';
import { type GradeWrite, regradeWrites } from '#infra/mongo/attempt/grade.ts';
import { noticeWrites } from '#infra/mongo/attempt/release.ts';
import { nextAttempts, touchSubmitted } from '#infra/mongo/exam-room/regraded-attempts.ts';
import { beginApply, findRegrade, moveRegrade, storeStep } from '#infra/mongo/exam-room/regrades.ts';
import { Stale } from '#infra/mongo/guarded-update.ts';
import { applyWrites, type Writes } from '#infra/mongo/writes.ts';
import { inPieces } from '#infra/process/in-pieces.ts';
import { type Attempt, isVoided } from '#shared/attempt/attempt.ts';
import { bindingCorrections, type Correction } from '#shared/attempt/correction.ts';
import { type GradeNotice, noticesOnRegrade } from '#shared/attempt/notices.ts';
import { asGraded } from '#shared/attempt/scoring/grade-attempt.ts';
import type { OnRegrade } from '#shared/exam-room/exam-act.ts';
import {
  type Applied,
  concerns,
  countsOf,
  isChanged,
  type Regraded,
  regrade,
  regradeMetadata,
} from '#shared/exam-room/regrade.ts';
import type { Effects, Outcome, Run, WorkerDeps } from '#workers/actor.ts';
import { ringForNotices } from '#workers/runtime.ts';
import { inSteps } from '#workers/steps.ts';
import { audited } from './audit.ts';

/** Attempts per transaction. */
const STEP = 100;

const NOT_FOUND = { kind: 'rejected', result: { rejected: 'REGRADE_NOT_FOUND' } } as const;
const CONFLICT = { kind: 'rejected', result: { rejected: 'REGRADE_STATE_CONFLICT' } } as const;

/** Computes whom a regrade changes, and by how much. Nothing but its own rows is written. */
export async function previewRegrade(deps: WorkerDeps, run: Run<'examroom'>): Promise<Outcome<'examroom'>> {
  const row = await regradeOf(deps, run);
  if (row === null) return NOT_FOUND;
  if (row.state !== 'PREVIEWING') return CONFLICT;

  await walk(deps, run, { row, statuses: ['GRADED'] }, async (step) => {
    const applied = await appliedRegrades(deps.mongo, row.examId, run.session);
    const lines: RegradeLine[] = [];
    const counts = { attempts: 0, changed: 0, up: 0, down: 0 };
    for (const attempt of step) {
      const corrections = { earlier: bindingCorrections(attempt, applied), changes: row.changes };
      const regraded = await regradedBy(deps, run, attempt, corrections);
      if (regraded === null) continue;
      const own = countsOf(regraded);
      for (const name of Object.keys(counts) as (keyof typeof counts)[]) counts[name] += own[name];
      if (isChanged(regraded)) lines.push(lineOf(row, attempt, regraded));
    }
    return { write: (commit) => storeStep(deps.mongo, row, { lines, counts }, commit) };
  });

  return ended(deps, run, row, 'exam.regrade', { from: 'PREVIEWING', to: 'PREVIEW' });
}

/**
 * Grades the attempts of an exam anew that hold a changed question. From the first transaction on, the changes bind every grade: those of
 * graded attempts are changed here, and a submitted or open attempt takes them at its grading. A grade that is being decided at this moment is
 * decided again, because this walk touches its attempt.
 *
 * A second run of a step changes nothing: each grade follows from the paper, all corrections and the answers.
 */
export async function applyRegrade(deps: WorkerDeps, run: Run<'examroom'>): Promise<Outcome<'examroom'>> {
  const preview = await regradeOf(deps, run);
  if (preview === null) return NOT_FOUND;
  if (preview.state === 'PREVIEW') {
    await run.checkpoint(
      { afterId: '' },
      async (commit) => void (await beginApply(deps.mongo, preview, bodyOf(run).by, commit)),
    );
  }
  const row = await regradeOf(deps, run);
  if (row?.state === 'APPLIED') return { kind: 'done', result: { regradeId: row._id } };
  if (row?.state !== 'APPLYING') return CONFLICT;

  const { by, statedReason: reason } = bodyOf(run);
  const act: Applied = { regradeId: row._id, by: by.id, reason };
  await walk(deps, run, { row, statuses: ['GRADED', 'SUBMITTED'] }, async (step) => {
    // After the attempts: what has changed one of them is among these.
    const binding = await appliedRegrades(deps.mongo, row.examId, run.session);
    const before = binding.filter(({ number }) => number < (row.number ?? 0));
    const now = new Date(deps.now());
    const writes: Writes[] = [];
    const notices: GradeNotice[] = [];
    for (const attempt of step) {
      if (attempt.status !== 'GRADED') continue;
      const earlier = bindingCorrections(attempt, before);
      const changes = bindingCorrections(attempt, binding).slice(earlier.length);
      const regraded = await regradedBy(deps, run, attempt, { earlier, changes });
      if (regraded === null || !regraded.differs) continue;
      const after = asGraded(attempt, regraded.grading);
      const news = isChanged(regraded) ? noticesOnRegrade({ ...after, voidedAt: null }, row._id, now) : [];
      const applied = news.length > 0 ? { ...act, isNews: true as const } : act;
      writes.push(...regradeWrites({ ...writeOf(act, attempt, regraded, now), applied }));
      // A voided attempt announces it when it is restored.
      if (!isVoided(attempt)) notices.push(...news);
    }
    const { maxAttempts } = deps.config.attempt.outbox;
    writes.push(noticeWrites(notices, { maxAttempts, now: now.getTime() }));
    const submitted = step.filter(({ status }) => status === 'SUBMITTED');
    return {
      async write(commit) {
        await touchSubmitted(deps.mongo, submitted, commit);
        await applyWrites(deps.mongo, writes, commit);
      },
      after: () => ringForNotices(deps, notices, now),
    };
  });

  return ended(deps, run, row, 'exam.regrade-applied', { from: 'APPLYING', to: 'APPLIED' });
}

/** Discards a preview. Of several acts that would, one does: the others find another state, at the latest in their commit. */
export async function discardRegrade(deps: WorkerDeps, run: Run<'examroom'>): Promise<Outcome<'examroom'>> {
  const row = await regradeOf(deps, run);
  if (row === null) return NOT_FOUND;
  if (row.state !== 'PREVIEW') return CONFLICT;
  return ended(deps, run, row, 'exam.regrade-discarded', { from: 'PREVIEW', to: 'DISCARDED' });
}

/** Returns what an act on a regrade is about. */
function bodyOf({ command: { _id, body } }: Run<'examroom'>): OnRegrade {
  if (!('regradeId' in body)) throw new Error(`act ${_id} is about no regrade`);
  return body;
}

function regradeOf({ mongo }: WorkerDeps, run: Run<'examroom'>): Promise<RegradeRow | null> {
  const { regradeId: _id, examId } = bodyOf(run);
  return findRegrade(mongo, { _id, examId }, run.session);
}

/** The writes of a step, and what follows once they are committed. */
interface StepWrites {
  write: Effects;
  after?: () => void;
}

/** Walks the attempts of a regrade by their ids. A step that a killed worker has committed is not done again. */
async function walk(
  deps: WorkerDeps,
  run: Run<'examroom'>,
  { row, statuses }: { row: RegradeRow; statuses: readonly Attempt['status'][] },
  decide: (step: readonly Attempt[]) => Promise<StepWrites>,
): Promise<void> {
  let afterId = run.command.progress?.afterId ?? '';
  await inSteps(run.signal, STEP, async (limit) => {
    const step = await nextAttempts(deps.mongo, row, { statuses, afterId, limit, session: run.session });
    const last = step.at(-1);
    if (last === undefined) return false;
    const { write, after } = await decide(step);
    await run.checkpoint({ afterId: last._id }, write);
    afterId = last._id;
    after?.();
    return true;
  });
}

/** Returns the attempt graded anew, or null if its paper has none of the changed questions. */
async function regradedBy(
  deps: WorkerDeps,
  { session }: Run<'examroom'>,
  attempt: Attempt,
  corrections: { earlier: readonly Correction[]; changes: readonly Correction[] },
): Promise<Regraded | null> {
  const paper = await deps.papers.find(attempt.paperId, session);
  if (!concerns(corrections.changes, paper)) return null;
  return inPieces(regrade(paper, corrections, attempt));
}

function writeOf(act: Applied, attempt: Attempt, regraded: Regraded, now: Date): GradeWrite {
  const metadata = JSON.stringify(regradeMetadata(act, regraded));
  const event = { type: 'REGRADED' as const, metadata, createdAt: now };
  return { attempt, grading: regraded.grading, event };
}

function lineOf(row: RegradeRow, attempt: Attempt, { before, after, questions }: Regraded): RegradeLine {
  const { createdById, resultViewerTeacherIds } = attempt.scope;
  return {
    _id: `${row._id}:${attempt._id}`,
    regradeId: row._id,
    attemptId: attempt._id,
    studentId: attempt.studentId,
    studentInfo: attempt.studentInfo,
    examiners: [...(createdById === null ? [] : [createdById]), ...resultViewerTeacherIds],
    before,
    after,
    questions,
    expiresAt: row.expiresAt ?? row.createdAt,
  };
}

/** Returns the end of an act: the next state of its regrade with a line of the audit. */
function ended(
  deps: WorkerDeps,
  run: Run<'examroom'>,
  row: RegradeRow,
  action: 'exam.regrade' | 'exam.regrade-applied' | 'exam.regrade-discarded',
  move: Parameters<typeof moveRegrade>[2],
): Outcome<'examroom'> {
  const { by, statedReason } = bodyOf(run);
  const detail = { regradeId: row._id, changes: row.changes.length };
  const line = { action, subject: row.examId, detail } as const;
  return {
    kind: 'done',
    result: { regradeId: row._id },
    ...audited(deps, { by, reason: statedReason }, line, {
      async changes(commit) {
        if (!(await moveRegrade(deps.mongo, row, move, commit))) throw new Stale(`regrade ${row._id}`);
      },
    }),
  };
}
