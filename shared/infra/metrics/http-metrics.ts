import type { Metrics } from './metrics.ts';

const BUCKETS_S = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20];

/** Counts one answered request. `route` is the path as mounted. `seconds` from its head to its reply. */
export type ObserveHttp = (method: string, route: string, status: number, seconds: number) => void;

export function httpMetrics(metrics: Metrics): ObserveHttp {
  const histogram = metrics.histogram(
    'http_request_duration_seconds',
    'Time from the head of a request to its reply',
    ['method', 'route', 'status'],
    BUCKETS_S,
  );
  return (method, route, status, seconds) => histogram.observe(seconds, { method, route, status: String(status) });
}
