import type { Neighbour } from '#infra/config/settings.ts';
import { findAttemptOf } from '#infra/mongo/attempt/attempts.ts';
import { findEventById } from '#infra/mongo/notification/fan-out.ts';
import type { CallEnd, Unserved } from '#infra/neighbours/call.ts';
import { sendToAnalytics, sendToAudit } from '#infra/neighbours/events.ts';
import { inPieces } from '#infra/process/in-pieces.ts';
import { analyticsEvents } from '#shared/attempt/analytics.ts';
import { roundOf } from '#shared/attempt/attempt.ts';
import { asGraded, gradeAttempt } from '#shared/attempt/scoring/grade-attempt.ts';
import { HOUR } from '#shared/kernel/time.ts';
import { auditEvent } from '#shared/notification/event.ts';
import type { Outcome, Run, WorkerDeps } from '#workers/actor.ts';
import { answered, noAnswerOf } from '#workers/notice-outcome.ts';

/** Upper bound of the wait between two attempts of an event, in milliseconds. */
export const EVENT_BACKOFF_CAP_MS = HOUR;

/** Statuses with which a receiver refuses the event itself. A repeat cannot help. */
const PERMANENT = new Set([400, 413, 422]);

/**
 * Sends the events of a first grading to the analytics service, at least once; the ids are stable, so the receiver recognises a repeat.
 * The events show the attempt as that grading left it. Later grades by hand and releases do not change them. Nothing is sent about an
 * erased student.
 */
export async function reportToAnalytics(
  deps: WorkerDeps,
  service: Neighbour,
  { command, session, signal }: Run<'upkeep:analytics'>,
): Promise<Outcome<'upkeep:analytics'>> {
  const { gradedAt, resultsReleasedAt, ...about } = command.body;
  const attempt = await findAttemptOf(deps.mongo, about, session);
  if (attempt === null || attempt.erasedAt != null) return { kind: 'done', result: { events: 0 } };
  // The attempt was reopened: what this round left is gone, and the next one is reported by itself.
  if (roundOf(attempt) !== roundOf(about)) return { kind: 'done', result: { events: 0 } };
  const paper = await deps.gradingPaper(attempt, session, gradedAt);
  const graded = asGraded(attempt, await inPieces(gradeAttempt(paper, attempt.answers)));
  const exam = { ...attempt.exam, resultsReleasedAt };
  const events = analyticsEvents({ ...graded, exam }, paper, gradedAt);
  const limits = { timeoutMs: deps.config.outboundTimeoutMs, signal };
  const ends = await Promise.all(events.map((event) => sendToAnalytics(service, event, limits)));
  const failed = ends.filter(isUnserved);
  for (const _ of failed) deps.alarm('analytics_failed');
  return worstOf(failed, 'analytics') ?? { kind: 'done', result: { events: events.length } };
}

/** Sends the audit service its copy of an event, at least once, under the id of the event. */
export async function reportToAudit(
  deps: WorkerDeps,
  service: Neighbour,
  { command, session, signal }: Run<'upkeep:audit'>,
): Promise<Outcome<'upkeep:audit'>> {
  const event = await findEventById(deps.mongo, command.body.eventId, session);
  if (event === null) return { kind: 'done', result: { sent: false } };
  const end = await sendToAudit(service, auditEvent(event), { timeoutMs: deps.config.outboundTimeoutMs, signal });
  if (!isUnserved(end)) return { kind: 'done', result: { sent: true } };
  deps.alarm('audit_failed');
  return failureOf(end, 'audit');
}

function isUnserved(end: CallEnd): end is Unserved {
  return end.kind !== 'served';
}

type Failure = Extract<Outcome, { kind: 'retry' | 'dead' }>;

/** Returns the outcome of several calls of which these failed, or null without one. While any of them can still succeed, all are sent again. */
function worstOf(failed: readonly Unserved[], service: string): Failure | null {
  const failures = failed.map((one) => failureOf(one, service));
  return failures.find(({ kind }) => kind === 'retry') ?? failures[0] ?? null;
}

/**
 * Returns the outcome of a failed call. Each failure spends an attempt, a refused token or address too: an event is a copy, and a queue that
 * never ends would be polled for ever.
 */
function failureOf(failed: Unserved, service: string): Failure {
  if (failed.kind === 'unanswered') return { kind: 'retry', error: noAnswerOf(service, failed.error) };
  const { status, retryAfterMs } = failed.reply;
  const error = answered(service, failed.reply);
  if (PERMANENT.has(status)) return { kind: 'dead', error };
  return { kind: 'retry', error, afterMs: Math.min(retryAfterMs ?? 0, EVENT_BACKOFF_CAP_MS) };
}
