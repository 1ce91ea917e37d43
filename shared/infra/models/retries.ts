import { ProviderFailure, type TokenUsage } from '#shared/classifier/tasks/task.ts';
import { spreadWait } from '#shared/kernel/time.ts';

/** Limits that all provider calls of one request share, and what the calls have used. */
export interface Budget {
  /** Deadline by `clock`. No call or wait starts after it, and no call lasts beyond it. */
  deadlineAt: number;
  retriesLeft: number;
  /** Provider calls so far. */
  calls: number;
  /** Sums of the counts that these calls have reported; null if none has reported one. */
  usage: TokenUsage;
}

export interface Timing {
  /** Monotonic milliseconds. */
  clock(): number;
  /** [0, 1). */
  random(): number;
  /** Rejects with the signal's reason if the signal is aborted. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}

const BASE_MS = 500;
const CAP_MS = 8_000;
/** If a provider requests a longer wait, the request fails at once, because no caller waits that long. */
export const MAX_WAIT_MS = 60_000;

/** Number of a provider call within its request, as usage events count them, and the wait before the call. */
export interface Turn {
  /** 1 for the first call. */
  attempt: number;
  retryWaitMs: number;
}

/**
 * Calls `callOnce` until it succeeds or the budget is spent; then throws the last failure. The wait before the next call is the
 * one that the provider requested, else a random part of a doubling limit. The randomness keeps requests that failed together
 * from returning together. If a wait would leave no time for the next call, the failure is thrown at once.
 * @throws ProviderFailure, or any other error of `callOnce`
 */
export async function callWithRetries<T>(
  timing: Timing,
  budget: Budget,
  signal: AbortSignal,
  callOnce: (turn: Turn) => Promise<T>,
): Promise<T> {
  let retryWaitMs = 0;
  let last: ProviderFailure | undefined;
  for (let retry = 0; ; retry++) {
    try {
      budget.calls++;
      return await callOnce({ attempt: budget.calls, retryWaitMs });
    } catch (error) {
      // The previous failure opened the circuit. Throw that failure, because it is the cause.
      if (error instanceof ProviderFailure && error.nature === 'open' && last !== undefined) throw last;
      if (!(error instanceof CallAttemptFailed)) throw error;
      last = error.failure;
      const waitMs =
        error.requestedDelayMs === null
          ? Math.floor(timing.random() * Math.min(CAP_MS, BASE_MS * 2 ** retry))
          : spreadWait(error.requestedDelayMs, timing.random());
      const fits = waitMs <= MAX_WAIT_MS && timing.clock() + waitMs < budget.deadlineAt;
      if (!error.retry || budget.retriesLeft <= 0 || !fits) throw error.failure;
      budget.retriesLeft--;
      retryWaitMs = waitMs;
      await timing.sleep(waitMs, signal);
    }
  }
}

/** A failed provider call, with the conditions of a retry. */
export class CallAttemptFailed extends Error {
  readonly failure: ProviderFailure;
  readonly retry: boolean;
  /** Wait that the provider requested, in ms; null if it requested none. */
  readonly requestedDelayMs: number | null;

  constructor(failure: ProviderFailure, options: { retry: boolean; requestedDelayMs: number | null }) {
    super(failure.message, { cause: failure });
    this.name = 'CallAttemptFailed';
    this.failure = failure;
    this.retry = options.retry;
    this.requestedDelayMs = options.requestedDelayMs;
  }
}
