import { performance } from 'node:perf_hooks';
import { type Now, SECOND } from '#shared/kernel/time.ts';
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
/** How far two clocks may drift apart, in ms for each ms: generous, a quartz is ten times better. */
const DRIFT = 0.000_2;
/** A process measures first while it boots, when its own event loop is at its slowest: it asks again for a better one. */
const SAMPLES = 4;
const GOOD_ENOUGH_MS = 5;

/**
 * Holds the offset between this process's monotonic clock and MongoDB's wall clock. The process's own wall clock is
 * not used after the first measurement: a step of it (NTP, an operator) moves no deadline. Before the first
 * measurement the process clock is all there is; a process that serves or works measures first.
 */
export function openServerClock(mongo: Mongo): ServerClock {
  // Added to performance.now(); starts as the process's own idea of the time.
  let offset = Date.now() - performance.now();
  // What `offset` may be wrong by, when it was measured.
  let error = Number.POSITIVE_INFINITY;
  let measuredAt = performance.now();
  let measuring: Promise<void> | undefined;

  async function measureOnce(): Promise<void> {
    const sent = performance.now();
    const hello = await mongo.db.admin().command({ hello: 1 });
    const received = performance.now();
    if (hello.localTime instanceof Date) take(hello.localTime.getTime() - (sent + received) / 2, (received - sent) / 2);
  }

  /**
   * A slow answer (a busy machine, a full wire) says less than a quick one of a while ago, and must not move the
   * deadlines of a whole exam. Only one that cannot be explained by its own slowness tells that MongoDB's clock was set.
   */
  function take(measured: number, halfRoundTrip: number): void {
    const at = performance.now();
    const knownTo = error + (at - measuredAt) * DRIFT;
    const disagrees = Math.abs(measured - offset) > halfRoundTrip + knownTo;
    if (halfRoundTrip > knownTo && !disagrees) return;
    offset = measured;
    error = halfRoundTrip;
    measuredAt = at;
  }

  function measure(): Promise<void> {
    measuring ??= measureWell().finally(() => {
      measuring = undefined;
    });
    return measuring;
  }

  async function measureWell(): Promise<void> {
    for (let sample = 0; sample < SAMPLES; sample++) {
      await measureOnce();
      if (error <= GOOD_ENOUGH_MS) return;
    }
  }

  // A failed measurement keeps the last offset: monotonic clocks drift by milliseconds an hour.
  const timer = setInterval(() => void measure().catch(() => undefined), MEASURE_EVERY_MS);
  timer.unref();
  return { now: () => Math.round(performance.now() + offset), measure, stop: () => clearInterval(timer) };
}
