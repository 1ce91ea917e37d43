/**
 * How long to wait before the next try, in milliseconds.
 *
 * `attempt` is how many tries were made, 1 after the first failure: the full wait is `baseMs × 2^(attempt − 1)`,
 * never more than `capMs`. Up to a quarter of it is taken off at random, so that what failed together does not
 * come back together. The result therefore lies in `[0.75 × full, full]` and is a whole number: a cap is a
 * promise to operators, and jitter never breaks it.
 *
 * `random` is in [0, 1). Numbers out of range are pulled into it, because a wrong wait is better than none.
 */
export function backoff(input: { baseMs: number; capMs: number; attempt: number; random: number }): number {
  const baseMs = Math.max(0, input.baseMs);
  const capMs = Math.max(0, input.capMs);
  const doublings = Math.max(0, Math.floor(input.attempt) - 1);
  const full = Math.floor(Math.min(capMs, baseMs * 2 ** Math.min(doublings, MAX_DOUBLINGS)));
  const random = Math.min(1, Math.max(0, input.random));
  return full - Math.floor((full * random) / 4);
}

/** 2^40 ms is 35 years: past that any cap has bound long ago, and the power must not reach Infinity. */
const MAX_DOUBLINGS = 40;
