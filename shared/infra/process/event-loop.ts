import type { Metrics } from '#infra/metrics/metrics.ts';

/** Interval of the timer whose delay is measured (ms). Of a shorter delay, the timer meets a part only. */
const TICK_MS = 100;

const DELAY_BUCKETS_S = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/**
 * Counts how late the event loop runs a timer, until `stop`. Work that holds the loop delays every request and every lease for as long. A
 * gauge that each scrape resets would lose a long delay: the scrape of that time has no reader any longer.
 */
export function measureEventLoop(metrics: Pick<Metrics, 'histogram'>, stop: AbortSignal): void {
  if (stop.aborted) return;
  const observe = metrics
    .histogram('examhall_event_loop_delay_seconds', 'Delay of a timer by other work of the process', DELAY_BUCKETS_S)
    .series({});
  let last = performance.now();
  const timer = setInterval(() => {
    const now = performance.now();
    observe(Math.max(0, now - last - TICK_MS) / 1_000);
    last = now;
  }, TICK_MS);
  timer.unref();
  stop.addEventListener('abort', () => clearInterval(timer), { once: true });
}
