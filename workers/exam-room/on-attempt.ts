import type { ClientSession } from 'mongodb';
import { findAttemptOf } from '#infra/mongo/attempt/attempts.ts';
import { keepActive } from '#infra/mongo/attempt/exams.ts';
import { rewrite } from '#infra/mongo/attempt/grade.ts';
import { holdVoided } from '#infra/mongo/attempt/insert-attempt.ts';
import { noticeWrites } from '#infra/mongo/attempt/release.ts';
import { submitIn } from '#infra/mongo/attempt/submit.ts';
import {
  othersOfStudent,
  restoreAttempt,
  seatToRestore,
  storedNotices,
  voidAttempt,
  withdrawNotices,
} from '#infra/mongo/exam-room/void.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import { Stale } from '#infra/mongo/guarded-update.ts';
import { findLive } from '#infra/mongo/mailbox/mailbox.ts';
import { applyWrites } from '#infra/mongo/writes.ts';
import { type Attempt, isVoided } from '#shared/attempt/attempt.ts';
import { gradingKey } from '#shared/attempt/commands.ts';
import { isErasedAttempt } from '#shared/attempt/erased.ts';
import type { StatedAct } from '#shared/attempt/events.ts';
import type { Examiner } from '#shared/attempt/extra-time.ts';
import { noticesOnRestore, unheardOf } from '#shared/attempt/notices.ts';
import { submitEvent } from '#shared/attempt/submit-event.ts';
import { refuseReopen, refuseRestore, reopenedFields } from '#shared/exam-room/rounds.ts';
import type { CommandRef } from '#shared/kernel/command.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { MINUTE } from '#shared/kernel/time.ts';
import type { Outcome, Run, WorkerDeps } from '#workers/actor.ts';
import { ringForNotices } from '#workers/runtime.ts';
import { audited } from './audit.ts';

/** The attempt of an act, and the grounds of its line in the audit. */
interface Subject {
  attempt: Attempt;
  by: Examiner;
  reason: string;
  /** The act, as the events that it stores name it. */
  act: StatedAct;
  minutes: number;
}

/** Returns the attempt of an act. The attempt of an erased student takes no act. */
async function subjectOf(deps: WorkerDeps, { command, session }: Run<'examroom'>): Promise<Subject | Rejection> {
  const { body } = command;
  if (!('attemptId' in body)) throw new Error(`act ${command._id} is about no attempt`);
  const attempt = await findAttemptOf(deps.mongo, body, session);
  if (attempt === null || isErasedAttempt(attempt)) return { rejected: 'ATTEMPT_NOT_FOUND' };
  const { by, statedReason: reason = '', minutes = 0 } = body;
  return { attempt, by, reason, act: { actId: command._id, by: by.id, reason }, minutes };
}

/** Submits an attempt in the caller's transaction, and returns its grading command. Throws Stale if it is open no longer. */
async function submitFor(
  deps: WorkerDeps,
  { attempt, act }: { attempt: Attempt; act: StatedAct },
  session: ClientSession,
): Promise<CommandRef> {
  const terms = { source: 'TEACHER', act, overdueByMs: null, maxAttempts: deps.config.worker.maxAttempts } as const;
  const isWanted = await deps.wanted.wants('attempt.submitted');
  const submitted = await submitIn(deps.mongo, { attempt, ...terms, now: deps.now(), isWanted }, session);
  if (submitted.kind !== 'submitted') throw new Stale(`attempt ${attempt._id}`);
  return submitted.command;
}

/** Submits an open attempt as of now. One that is submitted already is what the act wants. */
export async function handIn(deps: WorkerDeps, run: Run<'examroom'>): Promise<Outcome<'examroom'>> {
  const subject = await subjectOf(deps, run);
  if (isRejection(subject)) return { kind: 'rejected', result: subject };
  const { attempt, act } = subject;
  const { _id: attemptId, round } = attempt;
  const result = { attemptId, ...(round === undefined ? {} : { round }) };
  if (attempt.status !== 'IN_PROGRESS') return { kind: 'done', result };

  let grading: CommandRef | undefined;
  const line = { action: 'attempt.submit', subject: attempt._id, detail: { examId: attempt.examId } } as const;
  const end = audited(deps, subject, line, {
    async changes(commit) {
      grading = await submitFor(deps, { attempt, act }, commit);
    },
    rings: () => grading !== undefined && deps.ring(grading),
  });
  return { kind: 'done', result, ...end };
}

/** Voids an attempt; an open one is submitted first. One that is voided already does not change. */
export async function voidOne(deps: WorkerDeps, run: Run<'examroom'>): Promise<Outcome<'examroom'>> {
  const subject = await subjectOf(deps, run);
  if (isRejection(subject)) return { kind: 'rejected', result: subject };
  const { attempt, act } = subject;
  const result = { attemptId: attempt._id };
  if (isVoided(attempt)) return { kind: 'done', result };

  let grading: CommandRef | undefined;
  const line = { action: 'attempt.void', subject: attempt._id, detail: { examId: attempt.examId } } as const;
  const end = audited(deps, subject, line, {
    async changes(commit) {
      grading = attempt.status === 'IN_PROGRESS' ? await submitFor(deps, { attempt, act }, commit) : undefined;
      await voidAttempt(deps.mongo, attempt, act, commit);
    },
    rings: () => grading !== undefined && deps.ring(grading),
  });
  return { kind: 'done', result, ...end };
}

/**
 * Makes a voided attempt count again. Its limit is checked in the commit: of a restore and a start, or of two restores, that would both use
 * the last attempt, one is decided anew. A visible result that was never announced is announced, and so is a regrade of which the student
 * has not heard.
 */
export async function restore(deps: WorkerDeps, run: Run<'examroom'>): Promise<Outcome<'examroom'>> {
  const subject = await subjectOf(deps, run);
  if (isRejection(subject)) return { kind: 'rejected', result: subject };
  const { attempt, act } = subject;
  const refused = refuseRestore(attempt, await othersOfStudent(deps.mongo, attempt, run.session));
  if (refused !== null) return { kind: 'rejected', result: refused };
  const now = new Date(deps.now());
  const takeSeat = await seatToRestore(deps.mongo, attempt, now);
  if (takeSeat === null) return { kind: 'rejected', result: { rejected: 'ACCESS_LINK_FULL' } };

  const wanted = noticesOnRestore(attempt, now);
  const known = await storedNotices(
    deps.mongo,
    wanted.flatMap(({ grade, regrade }) => (regrade === null ? [grade] : [grade, regrade.notice])),
    run.session,
  );
  const notices = unheardOf(wanted, known);
  const line = { action: 'attempt.restore', subject: attempt._id, detail: { examId: attempt.examId } } as const;
  const end = audited(deps, subject, line, {
    changes: orStale(attempt, async (commit) => {
      const others = await othersOfStudent(deps.mongo, attempt, commit);
      if (refuseRestore(attempt, others) !== null) throw new Stale('a limit');
      for (const other of others.filter(isVoided)) await holdVoided(deps.mongo, other, commit);
      await restoreAttempt(deps.mongo, attempt, act, commit);
      await takeSeat(commit);
      const terms = { maxAttempts: deps.config.attempt.outbox.maxAttempts, now: now.getTime() };
      await applyWrites(deps.mongo, [noticeWrites(notices, terms)], commit);
    }),
    rings: () => ringForNotices(deps, notices, now),
  });
  return { kind: 'done', result: { attemptId: attempt._id }, ...end };
}

/** Begins the next round of a submitted attempt. The unique index of open attempts decides between it and a start of the student. */
export async function reopen(deps: WorkerDeps, run: Run<'examroom'>): Promise<Outcome<'examroom'>> {
  const subject = await subjectOf(deps, run);
  if (isRejection(subject)) return { kind: 'rejected', result: subject };
  const { attempt, by, reason, minutes } = subject;
  const others = await othersOfStudent(deps.mongo, attempt, run.session);
  const open = others.find(({ status }) => status === 'IN_PROGRESS');
  const refused = refuseReopen(attempt, open?._id ?? null);
  if (refused !== null) return { kind: 'rejected', result: refused };

  const now = new Date(deps.now());
  const { _id: actId } = run.command;
  const { maxScore, status } = attempt;
  const change = { at: now, by: by.id, cause: 'REOPEN', totalScore: null, maxScore, regradeId: null, reason } as const;
  const deadlineAt = new Date(now.getTime() + minutes * MINUTE);
  const changes = reopenedFields(attempt, change, deadlineAt);
  const metadata = JSON.stringify({ actId, minutes, by: by.id, reason });
  const reopened = { type: 'REOPENED', metadata, createdAt: now } as const;
  const events = [...(await unrecordedSubmit(deps, attempt, now, run.session)), reopened];
  const detail = { examId: attempt.examId, minutes, round: changes.round };
  const line = { action: 'attempt.reopen', subject: attempt._id, detail } as const;
  const end = audited(deps, subject, line, {
    changes: orStale(attempt, async (commit) => {
      await applyWrites(deps.mongo, rewrite({ attempt, status, changes, events }), commit);
      await withdrawNotices(deps.mongo, attempt, commit);
      await keepActive(deps.mongo, { ...attempt, deadlineAt }, commit);
    }),
  });
  return { kind: 'done', result: { attemptId: attempt._id }, ...end };
}

/** Returns the event of a submit that waits for its grade, which would have stored it. Without it the log would not show the submit. */
async function unrecordedSubmit(deps: WorkerDeps, attempt: Attempt, now: Date, session: ClientSession) {
  if (attempt.status !== 'SUBMITTED') return [];
  const grading = await findLive(deps.mongo, 'grading', gradingKey(attempt), session);
  return grading === null ? [] : [submitEvent(attempt, null, grading.body, now)];
}

/** Returns changes that decide anew if a unique index refuses them: another write of the student came first. */
function orStale({ _id }: Attempt, changes: (session: ClientSession) => Promise<void>) {
  return async (session: ClientSession) => {
    try {
      await changes(session);
    } catch (error) {
      throw isDuplicateKey(error) ? new Stale(`what attempt ${_id} needs`) : error;
    }
  };
}
