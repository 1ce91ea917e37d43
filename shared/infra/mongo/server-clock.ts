import { performance } from 'node:perf_hooks';
import { type Now, SECOND } from '#shared/kernel/time.ts';
import type { Mongo } from './connect.ts';

/** MongoDB's time, computed from a measured offset instead of a query each time. */
export interface ServerClock {
  /** Returns Unix milliseconds by MongoDB's clock, exact to about half a round trip. */
  now: Now;
  /** Measures the offset now. Rejects if MongoDB does not answer. */
  measure(): Promise<void>;
  stop(): void;
}

const MEASURE_EVERY_MS = 10 * SECOND;
/** Assumed drift between two clocks, in milliseconds per millisecond. A quartz clock is ten times better. */
const DRIFT = 0.000_2;
/** Maximum number of samples in one measurement. The first one is taken while the process boots and its event loop is slow. */
const SAMPLES = 4;
/** A measurement ends once the error is at most this (ms). */
const GOOD_ENOUGH_MS = 5;

/**
 * Opens a clock that stores the offset between this process's monotonic clock and MongoDB's wall clock, and measures it every 10 s.
 *
 * After the first measurement, a step of the process's own wall clock (by NTP or an operator) moves no deadline. Before it, only
 * the process clock is available, so front doors and workers measure before they start.
 */
export function openServerClock(mongo: Mongo): ServerClock {
  // Added to performance.now(). Until the first measurement, it is the offset of the process's own wall clock.
  let offset = Date.now() - performance.now();
  // Possible error of `offset` at the time of its measurement, in milliseconds.
  let error = Number.POSITIVE_INFINITY;
  let measuredAt = performance.now();
  let measuring: Promise<void> | undefined;

  async function measureOnce(): Promise<void> {
    const sent = performance.now();
    const hello = await mongo.db.admin().command({ hello: 1 });
    const received = performance.now();
    if (hello.localTime instanceof Date)
      useMeasurement(hello.localTime.getTime() - (sent + received) / 2, (received - sent) / 2);
  }

  /**
   * Accepts a measurement if it is more exact than the known offset, or if it proves that MongoDB's clock was set.
   *
   * A slow reply (a busy machine, a congested network) is less exact than a quick earlier one and must not move the deadlines of a
   * whole exam. If its own slowness cannot explain the difference, MongoDB's clock was set.
   */
  function useMeasurement(measured: number, halfRoundTrip: number): void {
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

  // A failed measurement changes nothing. The last offset stays good, because monotonic clocks drift by milliseconds an hour.
  const timer = setInterval(() => void measure().catch(() => undefined), MEASURE_EVERY_MS);
  timer.unref();
  return { now: () => Math.round(performance.now() + offset), measure, stop: () => clearInterval(timer) };
}
