import type { Neighbour } from '#infra/config/settings.ts';
import { findAttempt } from '#infra/mongo/attempt/attempts.ts';
import { type GradeWrite, storeGrade, wakeHandoffs } from '#infra/mongo/attempt/grade.ts';
import { findRelease, queueNotices } from '#infra/mongo/attempt/release.ts';
import { sendToAnalytics } from '#infra/neighbours/analytics.ts';
import { type AnalyticsEvent, analyticsEvents } from '#shared/attempt/analytics.ts';
import { type Attempt, remainingSeconds } from '#shared/attempt/attempt.ts';
import { submitEventType, submitMetadata } from '#shared/attempt/events.ts';
import { noticesOnGrade } from '#shared/attempt/notices.ts';
import { isScoredByHand, type Paper } from '#shared/attempt/question.ts';
import { gradeAttempt } from '#shared/attempt/scoring/grade-attempt.ts';
import type { Actor, Outcome, WorkerDeps } from '#workers/actor.ts';
import { ringForNotices } from '#workers/runtime.ts';

/**
 * SUBMITTED → GRADED, for every attempt once: scores and totals from nothing but the copied paper and the stored
 * answers, the terminal event, and the notices where the student may see the result at once.
 */
export function gradingActor(deps: WorkerDeps): Actor {
  return {
    name: 'grading',
    backoff: { baseMs: deps.config.worker.retryBaseDelayMs, capMs: 60_000 },
    handlers: { grading: ({ command }) => grade(deps, command.body.attemptId) },
  };
}

async function grade(deps: WorkerDeps, attemptId: string): Promise<Outcome<'grading'>> {
  const attempt = await findAttempt(deps.mongo, attemptId);
  if (attempt === null) return { kind: 'dead', error: new Error(`attempt ${attemptId} does not exist`) };
  // Graded by a run whose settling was lost with its process: nothing is left to do.
  if (attempt.status === 'GRADED') return { kind: 'done', result: { attemptId } };
  if (attempt.status !== 'SUBMITTED')
    return { kind: 'dead', error: new Error(`attempt ${attemptId} is not submitted`) };

  const [paper, release] = await Promise.all([
    deps.papers.find(attempt.paperId),
    findRelease(deps.mongo, attempt.examId, attempt.organizationId),
  ]);
  const now = new Date(deps.now());
  const releasedAt = attempt.exam.resultsReleasedAt ?? release?.releasedAt ?? null;
  const write = gradeWrite(attempt, paper, releasedAt, now);
  const graded = asGraded(attempt, write);
  const notices = noticesOnGrade(graded, releasedAt === null ? null : (release?.sourceEventId ?? null), now);
  return {
    kind: 'done',
    result: { attemptId },
    effects: async (session) => {
      await storeGrade(deps.mongo, write, session);
      await queueNotices(deps.mongo, session, notices, {
        maxAttempts: deps.config.attempt.outbox.maxAttempts,
        now: now.getTime(),
      });
    },
    after: () => {
      ringForNotices(deps, notices);
      reportToAnalytics(deps, graded, paper, now);
      if (paper.questions.some(isScoredByHand)) wakeWaitingHandoffs(deps, attemptId);
    },
  };
}

function gradeWrite(attempt: Attempt, paper: Paper, releasedAt: Date | null, now: Date): GradeWrite {
  const grading = gradeAttempt(paper, attempt.answers);
  const source = attempt.submittedBy ?? 'STUDENT';
  const metadata = submitMetadata({
    source,
    totalScore: grading.totals.totalScore,
    remainingSeconds: remainingSeconds(attempt.deadlineAt, attempt.submittedAt ?? now),
  });
  const event = { type: submitEventType(source), metadata: JSON.stringify(metadata), createdAt: now };
  return { attempt, grading, event, releasedAt };
}

/** The attempt as the write will leave it: what notices and analytics are decided on. */
function asGraded(attempt: Attempt, { grading, releasedAt }: GradeWrite): Attempt {
  const answers = Object.fromEntries(
    Object.entries(attempt.answers).map(([key, answer]) => [key, { ...answer, ...grading.answers[key] }]),
  );
  const exam = { ...attempt.exam, resultsReleasedAt: releasedAt };
  return { ...attempt, ...grading.totals, status: 'GRADED', answers, exam };
}

/**
 * Tells the analytics service of a first grading, best effort: after the commit, in the background, one try each, and a
 * failure changes nothing but a counter. The ids are stable, so a second telling is the receiver's replay. Never throws.
 */
export function reportToAnalytics(deps: WorkerDeps, graded: Attempt, paper: Paper, at: Date): void {
  const { analytics } = deps.config.neighbours;
  if (analytics === null) return;
  try {
    // Built now: behind a neighbour that hangs a thousand of these wait, and an attempt with its answers may be megabytes.
    const events = analyticsEvents(graded, paper, at);
    deps.background.run(() => tellAnalytics(deps, analytics, events));
  } catch (err) {
    analyticsFailed(deps, graded._id, err);
  }
}

async function tellAnalytics(deps: WorkerDeps, analytics: Neighbour, events: readonly AnalyticsEvent[]): Promise<void> {
  const calls = events.map((event) => sendToAnalytics(analytics, event, { timeoutMs: deps.config.outboundTimeoutMs }));
  for (const [index, call] of (await Promise.allSettled(calls)).entries()) {
    if (call.status === 'rejected') analyticsFailed(deps, events[index]?.entityId, call.reason);
  }
}

function analyticsFailed(deps: WorkerDeps, attemptId: string | undefined, err: unknown): void {
  deps.alarm('analytics_failed');
  deps.log.warn({ err, attemptId }, 'analytics was not told');
}

/** A handoff that came before the grade rests, the longer the more often it has looked: now there is something to see. */
function wakeWaitingHandoffs(deps: WorkerDeps, attemptId: string): void {
  // Queued from here and not from the run, whose whole scope, the attempt with it, would wait in the queue.
  deps.background.run(async () => {
    for (const commandId of await wakeHandoffs(deps.mongo, attemptId)) deps.ring('essayhandoff', commandId);
  });
}
