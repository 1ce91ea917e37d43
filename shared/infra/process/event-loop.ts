import type { Metrics } from '#infra/metrics/metrics.ts';
import type { Now } from '#shared/kernel/time.ts';
import { type HeldLoop, longestHeld } from '#shared/operations/alarms.ts';

/** Interval of the timer whose delay is measured (ms). Of a shorter delay, the timer meets a part only. */
const TICK_MS = 100;

const DELAY_BUCKETS_S = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

interface EventLoopDeps {
  /** Null: none are served. */
  metrics: Pick<Metrics, 'histogram'> | null;
  now: Now;
  stop: AbortSignal;
}

/**
 * Counts how late the event loop runs a timer, until `stop`. Work that holds the loop delays every request and every lease for as long. A
 * gauge that each scrape resets would lose a long delay: the scrape of that time has no reader any longer.
 *
 * Returns a function that returns the longest recent piece of work, or null. Of a delay, only the processor time of this thread is work: a
 * machine that runs other programs meanwhile is the fault of no request.
 */
export function measureEventLoop({ metrics, now, stop }: EventLoopDeps): () => HeldLoop | null {
  const observe = metrics
    ?.histogram('examhall_event_loop_delay_seconds', 'Delay of a timer by other work of the process', DELAY_BUCKETS_S)
    .series({});
  let held: HeldLoop | null = null;
  let [last, lastWork] = [performance.now(), processorMs()];

  function tick(): void {
    const [at, work] = [performance.now(), processorMs()];
    const delayMs = Math.max(0, at - last - TICK_MS);
    observe?.(delayMs / 1_000);
    held = longestHeld(held, { heldMs: Math.min(delayMs, work - lastWork), at: new Date(now()) }, now());
    [last, lastWork] = [at, work];
  }

  const timer = setInterval(tick, TICK_MS);
  timer.unref();
  if (stop.aborted) clearInterval(timer);
  stop.addEventListener('abort', () => clearInterval(timer), { once: true });
  return () => longestHeld(held, null, now());
}

/** Processor time of this thread in milliseconds. */
function processorMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}
