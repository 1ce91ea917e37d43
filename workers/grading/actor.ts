import { findAttemptOf } from '#infra/mongo/attempt/attempts.ts';
import { gradeWrites, makeHandoffsDue } from '#infra/mongo/attempt/grade.ts';
import { noticeWrites } from '#infra/mongo/attempt/release.ts';
import { COMMANDS, type CommandOf, newCommand } from '#infra/mongo/mailbox/commands.ts';
import { inserts } from '#infra/mongo/writes.ts';
import { inPieces } from '#infra/process/in-pieces.ts';
import { type Attempt, roundOf } from '#shared/attempt/attempt.ts';
import { analyticsOrder, gradedOrder } from '#shared/attempt/commands.ts';
import { noticesOnGrade } from '#shared/attempt/notices.ts';
import { applyRelease } from '#shared/attempt/release.ts';
import { asGraded, gradeAttempt } from '#shared/attempt/scoring/grade-attempt.ts';
import { submitEvent } from '#shared/attempt/submit-event.ts';
import { visibilityForStudent } from '#shared/attempt/visibility.ts';
import { EVENT_ATTEMPTS } from '#shared/kernel/command.ts';
import type { Actor, Outcome, Run, WorkerDeps } from '#workers/actor.ts';
import { ringForNotices } from '#workers/runtime.ts';

/**
 * Moves each attempt from SUBMITTED to GRADED, once. Scores and totals depend only on the copied paper, the corrections of its exam and the stored answers. The
 * same commit stores the terminal event, and the notices if the student may see the result at once.
 */
export function gradingActor(deps: WorkerDeps): Actor {
  return {
    name: 'grading',
    backoff: { baseMs: deps.config.worker.retryBaseDelayMs, capMs: 60_000 },
    handlers: { grading: (run) => grade(deps, run) },
  };
}

async function grade(deps: WorkerDeps, { command, session }: Run<'grading'>): Promise<Outcome<'grading'>> {
  const about = command.body;
  const { attemptId } = about;
  const loaded = await findAttemptOf(deps.mongo, about, session, deps.findAttempt);
  if (loaded === null) return { kind: 'dead', error: new Error(`attempt ${attemptId} does not exist`) };
  // The attempt was reopened: the submit of another round has a grading of its own.
  if (roundOf(loaded) !== roundOf(about)) return { kind: 'done', result: { attemptId } };
  // An earlier run graded the attempt but ended before it settled the command. Nothing is left to do.
  if (loaded.status === 'GRADED') return { kind: 'done', result: { attemptId } };
  if (loaded.status !== 'SUBMITTED') return { kind: 'dead', error: new Error(`attempt ${attemptId} is not submitted`) };

  await deps.completeExam(loaded);
  const paper = await deps.gradingPaper(loaded, session);
  const isReleased = loaded.exam.resultsReleasedAt !== null;
  const release = isReleased ? null : await deps.bindingRelease(loaded, session);
  const now = new Date(deps.now());
  const attempt = applyRelease(loaded, release);
  const grading = await inPieces(gradeAttempt(paper, attempt.answers));
  const event = submitEvent(attempt, grading.totals.totalScore, about, now);
  const write = { attempt, grading, event };
  const graded = asGraded(write.attempt, write.grading);
  const notices = noticesOnGrade(graded, now);
  const events = await eventsOf(deps, graded, now);
  return {
    kind: 'done',
    result: { attemptId },
    effects: [
      ...gradeWrites(write),
      noticeWrites(notices, { maxAttempts: deps.config.attempt.outbox.maxAttempts, now: now.getTime() }),
      inserts(COMMANDS, events),
    ],
    after: () => {
      ringForNotices(deps, notices, now);
      resumeHandoffs(deps, loaded);
    },
  };
}

/** Returns the commands that send the grading out, if the analytics service is configured or a subscription wants the event. */
async function eventsOf(
  deps: WorkerDeps,
  graded: Attempt,
  at: Date,
): Promise<CommandOf<'upkeep:analytics' | 'upkeep:publish'>[]> {
  const isReported = deps.config.neighbours.analytics !== null;
  const isWanted = await deps.wanted.wants('attempt.graded');
  const isVisible = visibilityForStudent(graded, at).resultVisible;
  const terms = { maxAttempts: EVENT_ATTEMPTS, now: at.getTime(), posted: Number(isReported) + Number(isWanted) };
  return [
    ...(isReported ? [newCommand({ ...analyticsOrder(graded, at), ...terms })] : []),
    ...(isWanted ? [newCommand({ ...gradedOrder(graded, { at, isVisible }), ...terms })] : []),
  ];
}

/** Makes handoffs due that wait for this grade. Without it, a handoff would wait out its backoff of up to 30 seconds. */
function resumeHandoffs(deps: WorkerDeps, { _id, waitingHandoffs }: Attempt): void {
  if (waitingHandoffs === undefined) return;
  // Queue the work here and not in the run: a closure there would keep the run's scope, with the attempt, in memory.
  deps.background.run(async () => {
    for (const command of await makeHandoffsDue(deps.mongo, { _id, waitingHandoffs })) deps.ring(command);
  });
}
