import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises';

/** One request that is due at a time of its own, whether or not earlier ones have been answered. */
export interface Arrival {
  /** Due time (ms) after the start of the loop. */
  dueMs: number;
  route: string;
  /** Sends the request. Rejects for a refusal or without a reply. */
  send(): Promise<unknown>;
}

/** Requests of one route. */
export interface RouteTimes {
  /** Milliseconds from the time at which a request was due to its reply. */
  latencies: number[];
  failures: Error[];
}

export interface LoopResult {
  routes: ReadonlyMap<string, RouteTimes>;
  /** Longest delay (ms) of the caller itself: it sends a request late if its own process is busy. Latencies include this delay. */
  callerLateMs: number;
}

/** Requests that are sent one after another before replies are read again. */
const SENT_AT_ONCE = 16;

/**
 * Sends each request when it is due and returns the latencies once all are answered. A caller that waits for each reply would
 * send fewer requests to a slow server. Its percentiles would then lack the requests that it never sent.
 */
export async function openLoop(arrivals: readonly Arrival[], progress?: (done: number) => void): Promise<LoopResult> {
  const routes = new Map<string, RouteTimes>();
  const from = performance.now();
  let callerLateMs = 0;
  let done = 0;

  async function sendOne({ dueMs, route, send }: Arrival): Promise<void> {
    const times = routes.get(route) ?? { latencies: [], failures: [] };
    routes.set(route, times);
    try {
      await send();
      times.latencies.push(performance.now() - from - dueMs);
    } catch (error) {
      times.failures.push(error instanceof Error ? error : new Error(String(error)));
    }
    done += 1;
    progress?.(done);
  }

  const sent: Promise<void>[] = [];
  for (const arrival of arrivals.toSorted((a, b) => a.dueMs - b.dueMs)) {
    const waitMs = from + arrival.dueMs - performance.now();
    if (waitMs > 0) await delay(waitMs);
    else if (sent.length % SENT_AT_ONCE === 0) await nextTurn();
    callerLateMs = Math.max(callerLateMs, performance.now() - from - arrival.dueMs);
    sent.push(sendOne(arrival));
  }
  await Promise.all(sent);
  return { routes, callerLateMs };
}

/**
 * Returns the highest rate that `holds`: doubles the first rate until one fails, then halves the distance `steps` times. Returns 0 if
 * every rate fails.
 */
export async function highestRate(
  first: number,
  steps: number,
  holds: (rate: number) => Promise<boolean>,
): Promise<number> {
  let good = 0;
  let bad = first;
  while (await holds(bad)) {
    good = bad;
    bad *= 2;
  }
  for (let step = 0; step < steps; step++) {
    const middle = Math.round((good + bad) / 2);
    if (middle === good || middle === bad) break;
    if (await holds(middle)) good = middle;
    else bad = middle;
  }
  return good;
}
