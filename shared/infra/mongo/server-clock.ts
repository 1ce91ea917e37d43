import { performance } from 'node:perf_hooks';
import type { Now } from '../../kernel/clock.ts';
import { SECOND } from '../../kernel/clock.ts';
import type { Mongo } from './connect.ts';

/** MongoDB's time, told without asking it each time. */
export interface ServerClock {
  /** Unix milliseconds by MongoDB's clock, right to about half a round trip. */
  now: Now;
  /** Measures the offset at once; rejects when MongoDB does not answer. */
  measure(): Promise<void>;
  stop(): void;
}

const MEASURE_EVERY_MS = 10 * SECOND;

/**
 * Holds the offset between this process's monotonic clock and MongoDB's wall clock. The process's own wall clock is
 * not used after the first measurement: a step of it (NTP, an operator) moves no deadline. Before the first
 * measurement the process clock is all there is; a process that serves or works measures first.
 */
export function openServerClock(mongo: Mongo): ServerClock {
  // Added to performance.now(); starts as the process's own idea of the time.
  let offset = Date.now() - performance.now();
  let measuring: Promise<void> | undefined;

  async function measureOnce(): Promise<void> {
    const sent = performance.now();
    const hello = await mongo.db.admin().command({ hello: 1 });
    const received = performance.now();
    if (hello.localTime instanceof Date) offset = hello.localTime.getTime() - (sent + received) / 2;
  }

  function measure(): Promise<void> {
    measuring ??= measureOnce().finally(() => {
      measuring = undefined;
    });
    return measuring;
  }

  // A failed measurement keeps the last offset: monotonic clocks drift by milliseconds an hour.
  const timer = setInterval(() => void measure().catch(() => undefined), MEASURE_EVERY_MS);
  timer.unref();
  return { now: () => Math.round(performance.now() + offset), measure, stop: () => clearInterval(timer) };
}
