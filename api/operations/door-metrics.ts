import { CALLERS } from '#api/http/body-budget.ts';
import type { Streams } from '#api/http/live-stream.ts';
import type { Readiness } from '#api/operations/routes.ts';
import type { MeasuredDoor } from '#api/server.ts';
import { HTTP_SECONDS, type Metrics } from '#infra/metrics/metrics.ts';
import type { StoreStates } from '#infra/metrics/process-metrics.ts';

/** Registers what a front door holds at this moment. */
export function doorMetrics(metrics: Metrics, door: MeasuredDoor, streams: Streams): void {
  metrics.gauge('examhall_http_requests_in_flight', 'Requests without a complete reply', [], (gauge) =>
    gauge.set(door.inFlight()),
  );
  metrics.gauge('examhall_body_budget_bytes', 'Bytes of request bodies in memory', ['callers'], (gauge) => {
    for (const callers of CALLERS) gauge.set(door.bodyBudget(callers).used(), { callers });
  });
  const limit = metrics.gauge('examhall_body_budget_limit_bytes', 'Bytes at which bodies are refused', ['callers']);
  for (const callers of CALLERS) limit.set(door.bodyBudget(callers).limit, { callers });
  metrics.gauge('examhall_event_streams_open', 'Open event streams', [], (gauge) => gauge.set(streams.slots.open()));
}

/** Routes of the objectives, with the statuses on which these depend. */
const OBJECTIVES = {
  '/v1/attempts/:attemptId/answers': [200, 500, 503],
  '/v1/attempts/:attemptId/submit': [200, 202, 500, 503],
} as const;

/**
 * Begins the series of requests on which the objectives of service depend, at 0. Prometheus finds no increase in a series that only
 * appears with its first error.
 */
export function beginObjectives(metrics: Metrics): void {
  const histogram = metrics.histogram(...HTTP_SECONDS);
  for (const [route, statuses] of Object.entries(OBJECTIVES)) {
    for (const status of statuses) histogram.series({ method: 'POST', route, status: String(status) });
  }
}

/** Returns the states of the stores as `/readyz` last found them. */
export function storesOf(ready: () => Promise<Readiness>): StoreStates {
  return async () => {
    const { mongodb, redis } = (await ready()).checks;
    return { mongodb: mongodb.status === 'up', redis: redis.status === 'up' };
  };
}
