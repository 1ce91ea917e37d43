import { SECOND } from '#shared/kernel/time.ts';

/** How fast a body must arrive. */
export interface Pace {
  /** Time from the end of the head to the end of the body (ms). */
  limitMs: number;
  /** Time after the head that does not count for the least rate (ms): a link that stalls for so long loses nothing. */
  graceMs: number;
  /** Least rate after the grace, on average (bytes per second). It binds only while more than `crowd` bodies are arriving. */
  leastRate: number;
  /** Bodies that may arrive at once at any rate, because they need no room that others lack. */
  crowd: number;
}

/** Returns true if a body of which so many bytes have arrived is too slow at this age, as one of `arriving` bodies. */
export function isTooSlow(received: number, ageMs: number, arriving: number, pace: Pace): boolean {
  if (ageMs >= pace.limitMs) return true;
  return arriving > pace.crowd && received < ((ageMs - pace.graceMs) / SECOND) * pace.leastRate;
}

/** A body that is arriving. */
export interface Arrival {
  /** Bytes that have arrived; its reader counts them. */
  received: number;
  startedAt: number;
  late: () => void;
}

/** The deadlines of many bodies. One timer for all is cheaper than a timer for each, because nearly all arrive in time. */
export interface Deadlines {
  /** Calls `late` once the body is too slow, at most CHECK_MS too late, unless it is removed first. */
  add(late: () => void): Arrival;
  remove(arrival: Arrival): void;
}

/** Interval of the checks (ms), the same as that of Node's own timeout checks. */
const CHECK_MS = 500;

/** Bodies that are ended at once. Thousands of replies without a pause would delay every other request. */
const ENDED_AT_ONCE = 32;

/** Opens the deadlines of bodies that must arrive at this pace. `clock`: ms that never decrease. */
export function openDeadlines(pace: Pace, clock: () => number = () => performance.now()): Deadlines {
  const everyMs = Math.min(CHECK_MS, pace.limitMs / 8);
  // Insertion order is the order of age, so a check stops at the first body that is still in its grace.
  const arriving = new Set<Arrival>();
  let timer: NodeJS.Timeout | undefined;
  let checkedAt = 0;
  let pausedMs = 0;

  function check(): void {
    let ended = 0;
    // While the process itself was paused, bytes may have arrived that it could not read.
    pausedMs += Math.max(0, clock() - checkedAt - 2 * everyMs);
    checkedAt = clock();
    const now = checkedAt - pausedMs;
    for (const arrival of arriving) {
      const ageMs = now - arrival.startedAt;
      if (ageMs < pace.graceMs && ageMs < pace.limitMs) return;
      if (!isTooSlow(arrival.received, ageMs, arriving.size, pace)) continue;
      arriving.delete(arrival);
      arrival.late();
      ended += 1;
      if (ended < ENDED_AT_ONCE) continue;
      setImmediate(check);
      return;
    }
    if (arriving.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  }

  return {
    add(late) {
      if (timer === undefined) {
        checkedAt = clock();
        timer = setInterval(check, everyMs).unref();
      }
      const arrival = { received: 0, startedAt: clock() - pausedMs, late };
      arriving.add(arrival);
      return arrival;
    },
    remove(arrival) {
      arriving.delete(arrival);
    },
  };
}
