import { mock } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Test } from 'tap';
import { isOutage } from '#infra/mongo/faults.ts';

type Falsy = false | null | undefined | 0 | '';

const PACE_MS = 100;
const TIMEOUT_MS = 90_000;

/** Polls `condition` every few milliseconds until it is truthy, and returns its value. @throws Error after `withinMs`, default a minute */
export async function until<T>(
  what: string,
  condition: () => T | Promise<T>,
  withinMs = 60_000,
  paceMs = 5,
): Promise<Exclude<T, Falsy>> {
  const giveUpAt = performance.now() + withinMs;
  for (;;) {
    const seen = await condition();
    if (seen) return seen as Exclude<T, Falsy>;
    if (performance.now() > giveUpAt) throw new Error(`never came true: ${what}`);
    await delay(paceMs);
  }
}

/** Like `until`, but polls ten times a second, which spares the database of the cluster under test, and waits up to 90 s. */
export function untilSlowly(what: string, condition: () => Promise<boolean>): Promise<boolean> {
  return until(what, condition, TIMEOUT_MS, PACE_MS);
}

/**
 * Repeats `work` as long as it fails as an outage, and returns its result. On a busy machine a transaction may exceed its time limit,
 * and the product then answers "try again".
 */
export async function despiteOutages<T>(work: () => Promise<T>): Promise<T> {
  const giveUpAt = performance.now() + TIMEOUT_MS;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!isOutage(error) || performance.now() > giveUpAt) throw error;
      await delay(PACE_MS);
    }
  }
}

/** Returns a closed gate, which a test opens: the code under test waits for `opened`. */
export function gate(): { opened: Promise<void>; open(): void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: resolve };
}

/** Replaces the time limits of sends: those that have begun end when the returned function is called. */
export function holdTimeLimits(t: Test): () => void {
  const limits: AbortController[] = [];
  const held = mock.method(AbortSignal, 'timeout', () => {
    const limit = new AbortController();
    limits.push(limit);
    return limit.signal;
  });
  t.teardown(() => held.mock.restore());
  return () => {
    for (const limit of limits.splice(0)) limit.abort(new DOMException('The time is up', 'TimeoutError'));
  };
}
