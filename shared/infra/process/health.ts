import { LRUCache } from 'lru-cache';
import { withTimeout } from './background.ts';

/** Result of a check of a store. */
export interface CheckResult {
  status: 'up' | 'down';
  /** Null if the store did not answer. */
  latencyMs: number | null;
}

/** Runs a check, which rejects if its store does not answer, for at most `boundMs`. Never rejects. */
export async function checkWithin(check: () => Promise<void>, boundMs: number): Promise<CheckResult> {
  const started = performance.now();
  try {
    await withTimeout(check(), boundMs, () => new Error('no answer in time'));
    return { status: 'up', latencyMs: Math.round((performance.now() - started) * 100) / 100 };
  } catch {
    return { status: 'down', latencyMs: null };
  }
}

/**
 * Returns a function that shares one run of `work` among concurrent callers, and its result among those of the next `cacheMs`. Many
 * probes thus cause little load. If `work` rejects, the callers of the next `cacheMs` get the same error.
 */
export function shareRuns<Result>(cacheMs: number, work: () => Promise<Result>): () => Promise<Result> {
  let last: Promise<Result> | undefined;
  let freshUntil = 0;
  return () => {
    if (last !== undefined && performance.now() < freshUntil) return last;
    // A run in progress counts as fresh, so that callers during it wait for its result.
    freshUntil = Number.POSITIVE_INFINITY;
    last = work().finally(() => {
      freshUntil = performance.now() + cacheMs;
    });
    return last;
  };
}

/** Keys whose results are remembered; beyond it the one that was used longest ago is forgotten. */
const MAX_SHARED = 100;

/** Returns a function that shares runs as `shareRuns` does, for each key by itself. A run that fails is shared with those who wait for it. */
export function shareRunsBy<Key, Result>(
  cacheMs: number,
  work: (key: Key) => Promise<Result>,
): (key: Key) => Promise<Result> {
  const runs = new LRUCache<string, () => Promise<Result>>({ max: MAX_SHARED });
  return (key) => {
    const name = JSON.stringify(key);
    const run = runs.get(name) ?? shareRuns(cacheMs, () => work(key));
    runs.set(name, run);
    return run();
  };
}
