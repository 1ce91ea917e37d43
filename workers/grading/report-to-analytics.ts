import type { Neighbour } from '#infra/config/settings.ts';
import { callService } from '#infra/neighbours/call.ts';
import { type AnalyticsEvent, analyticsEvents } from '#shared/attempt/analytics.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { ATTEMPT_SERVICE } from '#shared/attempt/notices.ts';
import type { Paper } from '#shared/attempt/question.ts';
import type { WorkerDeps } from '#workers/actor.ts';

/**
 * Tells the analytics service of a first grading, best effort: after the commit, in the background, one try each, and a
 * failure changes nothing but a counter. The ids are stable, so a second telling is the receiver's replay. Never throws.
 */
export function reportToAnalytics(deps: WorkerDeps, graded: Attempt, paper: Paper, at: Date): void {
  const analytics = deps.config.neighbours.analytics;
  if (analytics === null) return;
  try {
    // Built now: behind a neighbour that hangs a thousand of these wait, and an attempt with its answers may be megabytes.
    const events = analyticsEvents(graded, paper, at);
    deps.background.run(() => tell(deps, analytics, events));
  } catch (err) {
    failed(deps, graded._id, err);
  }
}

async function tell(deps: WorkerDeps, analytics: Neighbour, events: readonly AnalyticsEvent[]): Promise<void> {
  const calls = events.map(async (event) => {
    const reply = await callService({
      method: 'POST',
      url: `${analytics.url}/v1/events`,
      sender: ATTEMPT_SERVICE,
      token: analytics.token,
      body: event,
      timeoutMs: deps.config.outboundTimeoutMs,
    });
    if (reply.status >= 300) throw new Error(`the analytics service answered ${reply.status}`);
  });
  for (const [index, call] of (await Promise.allSettled(calls)).entries()) {
    if (call.status === 'rejected') failed(deps, events[index]?.entityId, call.reason);
  }
}

function failed(deps: WorkerDeps, attemptId: string | undefined, err: unknown): void {
  deps.alarm('analytics_failed');
  deps.log.warn({ err, attemptId }, 'analytics was not told');
}
