import type { Neighbour } from '#infra/config/settings.ts';
import { findAttemptOf } from '#infra/mongo/attempt/attempts.ts';
import { type GradeWrite, makeHandoffsDue, storeGrade } from '#infra/mongo/attempt/grade.ts';
import { findBindingRelease, queueNotices } from '#infra/mongo/attempt/release.ts';
import { sendToAnalytics } from '#infra/neighbours/analytics.ts';
import { type AnalyticsEvent, analyticsEvents } from '#shared/attempt/analytics.ts';
import { type Attempt, remainingSeconds } from '#shared/attempt/attempt.ts';
import { submitEventType, submitMetadata } from '#shared/attempt/events.ts';
import { noticesOnGrade } from '#shared/attempt/notices.ts';
import type { Paper } from '#shared/attempt/question.ts';
import { applyRelease } from '#shared/attempt/release.ts';
import { gradeAttempt } from '#shared/attempt/scoring/grade-attempt.ts';
import type { Actor, Outcome, Run, WorkerDeps } from '#workers/actor.ts';
import { ringForNotices } from '#workers/runtime.ts';

/**
 * Moves each attempt from SUBMITTED to GRADED, once. Scores and totals depend only on the copied paper and the stored answers. The
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
  const { client, ...about } = command.body;
  const { attemptId } = about;
  const loaded = await findAttemptOf(deps.mongo, about, session);
  if (loaded === null) return { kind: 'dead', error: new Error(`attempt ${attemptId} does not exist`) };
  // An earlier run graded the attempt but ended before it settled the command. Nothing is left to do.
  if (loaded.status === 'GRADED') return { kind: 'done', result: { attemptId } };
  if (loaded.status !== 'SUBMITTED') return { kind: 'dead', error: new Error(`attempt ${attemptId} is not submitted`) };

  const paper = await deps.papers.find(loaded.paperId, session);
  const isReleased = loaded.exam.resultsReleasedAt !== null;
  const release = isReleased ? null : await findBindingRelease(deps.mongo, loaded, session);
  const now = new Date(deps.now());
  const attempt = applyRelease(loaded, release);
  const write = gradeWrite(attempt, paper, client, now);
  const graded = asGraded(write);
  const notices = noticesOnGrade(graded, now);
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
      ringForNotices(deps, notices, now);
      reportToAnalytics(deps, graded, paper, now);
      resumeHandoffs(deps, loaded);
    },
  };
}

function gradeWrite(attempt: Attempt, paper: Paper, client: string | undefined, now: Date): GradeWrite {
  const grading = gradeAttempt(paper, attempt.answers);
  const source = attempt.submittedBy ?? 'STUDENT';
  const metadata = submitMetadata({
    source,
    totalScore: grading.totals.totalScore,
    remainingSeconds: remainingSeconds(attempt.deadlineAt, attempt.submittedAt ?? now),
    client,
  });
  const event = { type: submitEventType(source), metadata: JSON.stringify(metadata), createdAt: now };
  return { attempt, grading, event };
}

/** Returns the attempt as the write will leave it. Notices and analytics are decided on it. */
function asGraded({ attempt, grading }: GradeWrite): Attempt {
  const answers = Object.fromEntries(
    Object.entries(attempt.answers).map(([key, answer]) => [key, { ...answer, ...grading.answers[key] }]),
  );
  return { ...attempt, ...grading.totals, status: 'GRADED', answers };
}

/**
 * Sends the events of a first grading to the analytics service, best effort: after the commit, in the background, one call for each
 * event. A failure is logged and counted. The ids are stable, so the receiver recognises a repeat. Never throws.
 */
export function reportToAnalytics(deps: WorkerDeps, graded: Attempt, paper: Paper, at: Date): void {
  const { analytics } = deps.config.neighbours;
  if (analytics === null) return;
  try {
    // Build the events now so that the queue does not retain attempts. Up to 1,000 calls can wait behind a hanging service, and an
    // attempt with its answers can be megabytes.
    const events = analyticsEvents(graded, paper, at);
    deps.background.run(() => sendEvents(deps, analytics, events));
  } catch (err) {
    analyticsFailed(deps, graded._id, err);
  }
}

async function sendEvents(deps: WorkerDeps, analytics: Neighbour, events: readonly AnalyticsEvent[]): Promise<void> {
  const calls = events.map((event) => sendToAnalytics(analytics, event, { timeoutMs: deps.config.outboundTimeoutMs }));
  for (const [index, call] of (await Promise.allSettled(calls)).entries()) {
    if (call.status === 'rejected') analyticsFailed(deps, events[index]?.entityId, call.reason);
  }
}

function analyticsFailed(deps: WorkerDeps, attemptId: string | undefined, err: unknown): void {
  deps.alarm('analytics_failed');
  deps.log.warn({ err, attemptId }, 'sending events to the analytics service failed; events dropped');
}

/** Makes handoffs due that wait for this grade. Without it, a handoff would wait out its backoff of up to 30 seconds. */
function resumeHandoffs(deps: WorkerDeps, { _id, waitingHandoffs }: Attempt): void {
  if (waitingHandoffs === undefined) return;
  // Queue the work here and not in the run: a closure there would keep the run's scope, with the attempt, in memory.
  deps.background.run(async () => {
    for (const command of await makeHandoffsDue(deps.mongo, { _id, waitingHandoffs })) deps.ring(command);
  });
}
