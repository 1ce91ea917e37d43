import { mock } from 'node:test';
import type { Test } from 'tap';

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
