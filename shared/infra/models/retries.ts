import { ProviderFailure } from '#shared/classifier/tasks/task.ts';

/** What all the calls of one ask may use up together. */
export interface Budget {
  /** By `clock`: nothing is begun that cannot end by then. */
  deadlineAt: number;
  retriesLeft: number;
  /** Tries so far. */
  tries: number;
}

export interface Patience {
  /** Monotonic milliseconds. */
  clock(): number;
  /** [0, 1). */
  random(): number;
  /** Rejects with the signal's reason when it is aborted. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}

const BASE_MS = 500;
const CAP_MS = 8_000;
/** Whoever asks for more than this is left alone at once: nobody waits for an answer that long. */
export const LONGEST_WAIT_MS = 60_000;

/** Which try of its ask one is, as usage events count them, and the wait before it. */
export interface Turn {
  /** 1 = the first. */
  attempt: number;
  retryWaitMs: number;
}

/**
 * Tries until one succeeds or the budget is spent; then the last failure is thrown. The wait before the next
 * one is what the provider asked for, else a random share of a doubling bound: what failed together does not come back
 * together. A wait that would not leave any time to the next try is not begun.
 * @throws ProviderFailure, or whatever else `tryOnce` throws
 */
export async function callWithRetries<T>(
  patience: Patience,
  budget: Budget,
  signal: AbortSignal,
  tryOnce: (turn: Turn) => Promise<T>,
): Promise<T> {
  let retryWaitMs = 0;
  let last: ProviderFailure | undefined;
  for (let retry = 0; ; retry++) {
    try {
      budget.tries++;
      return await tryOnce({ attempt: budget.tries, retryWaitMs });
    } catch (error) {
      // Left alone from now on, for what it did to the try before: that is what the caller asks for.
      if (error instanceof ProviderFailure && error.nature === 'open' && last !== undefined) throw last;
      if (!(error instanceof TryFailed)) throw error;
      last = error.failure;
      const waitMs = error.askedWaitMs ?? Math.floor(patience.random() * Math.min(CAP_MS, BASE_MS * 2 ** retry));
      const fits = waitMs <= LONGEST_WAIT_MS && patience.clock() + waitMs < budget.deadlineAt;
      if (!error.retry || budget.retriesLeft <= 0 || !fits) throw error.failure;
      budget.retriesLeft--;
      retryWaitMs = waitMs;
      await patience.sleep(waitMs, signal);
    }
  }
}

/** One try that failed, and what that means for the next one. */
export class TryFailed extends Error {
  readonly failure: ProviderFailure;
  readonly retry: boolean;
  /** The wait that the provider asked for (ms); null = it asked for none. */
  readonly askedWaitMs: number | null;

  constructor(failure: ProviderFailure, options: { retry: boolean; askedWaitMs: number | null }) {
    super(failure.message, { cause: failure });
    this.name = 'TryFailed';
    this.failure = failure;
    this.retry = options.retry;
    this.askedWaitMs = options.askedWaitMs;
  }
}
