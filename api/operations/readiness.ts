import { performance } from 'node:perf_hooks';
import { bounded } from '#infra/process/background.ts';

/** Resolves when the dependency answered, rejects when it did not. Need not bound itself. */
export interface Checks {
  mongodb(): Promise<void>;
  redis(): Promise<void>;
}

export interface CheckResult {
  status: 'up' | 'down';
  /** Null when there was no answer. */
  latencyMs: number | null;
}

export interface Readiness {
  status: 'ready' | 'degraded' | 'unready';
  checks: { mongodb: CheckResult; redis: CheckResult };
}

export interface ReadinessDeps {
  checks: Checks;
  draining: AbortSignal;
  /** Default 500 ms. */
  boundMs?: number;
  /** How long a result is told again without asking; default 250 ms. */
  cacheMs?: number;
}

/**
 * Asks the stores, each within its bound. Results are shared for a moment and probes that come together wait for one
 * question: a platform with many probes must not become load. Redis is a doorbell, so its loss degrades only.
 */
export function readiness({ checks, draining, boundMs = 500, cacheMs = 250 }: ReadinessDeps): () => Promise<Readiness> {
  let asked: Promise<Readiness['checks']> | undefined;
  let freshUntil = 0;

  function results(): Promise<Readiness['checks']> {
    if (asked !== undefined && performance.now() < freshUntil) return asked;
    // Until the answers are there, they count as fresh: whoever asks meanwhile waits for them.
    freshUntil = Number.POSITIVE_INFINITY;
    asked = Promise.all([result(checks.mongodb, boundMs), result(checks.redis, boundMs)]).then(([mongodb, redis]) => {
      freshUntil = performance.now() + cacheMs;
      return { mongodb, redis };
    });
    return asked;
  }

  return async () => {
    const found = await results();
    if (draining.aborted || found.mongodb.status === 'down') return { status: 'unready', checks: found };
    return { status: found.redis.status === 'down' ? 'degraded' : 'ready', checks: found };
  };
}

async function result(check: () => Promise<void>, boundMs: number): Promise<CheckResult> {
  const started = performance.now();
  try {
    await bounded(check(), boundMs, () => new Error('no answer in time'));
    return { status: 'up', latencyMs: Math.round((performance.now() - started) * 100) / 100 };
  } catch {
    return { status: 'down', latencyMs: null };
  }
}
