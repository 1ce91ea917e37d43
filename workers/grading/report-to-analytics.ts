import { analyticsEvents } from '../../shared/attempt/analytics.ts';
import type { Attempt } from '../../shared/attempt/attempt.ts';
import { ATTEMPT_SERVICE } from '../../shared/attempt/notices.ts';
import type { Paper } from '../../shared/attempt/question.ts';
import { callService } from '../../shared/infra/http-client/call-service.ts';
import type { WorkerDeps } from '../deps.ts';

/**
 * Tells the analytics service of a first grading, best effort: after the commit, one try each, and a failure changes
 * nothing but a counter. The ids are stable, so a second telling is the receiver's replay.
 */
export async function reportToAnalytics(deps: WorkerDeps, graded: Attempt, paper: Paper, at: Date): Promise<void> {
  const analytics = deps.config.neighbours.analytics;
  if (analytics === null) return;
  const calls = analyticsEvents(graded, paper, at).map(async (event) => {
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
  for (const call of await Promise.allSettled(calls)) {
    if (call.status === 'fulfilled') continue;
    deps.alarm('analytics_failed');
    deps.log.warn({ err: call.reason, attemptId: graded._id }, 'analytics was not told');
  }
}
