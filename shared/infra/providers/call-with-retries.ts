import { ProviderFailure } from '../../classifier/model-task.ts';

/** One attempt that failed, and what that means for the next one. */
export class AttemptFailed extends Error {
  readonly failure: ProviderFailure;
  readonly retry: boolean;
  /** The wait that the provider asked for (ms); null = it asked for none. */
  readonly askedWaitMs: number | null;

  constructor(failure: ProviderFailure, options: { retry: boolean; askedWaitMs: number | null }) {
    super(failure.message, { cause: failure });
    this.name = 'AttemptFailed';
    this.failure = failure;
    this.retry = options.retry;
    this.askedWaitMs = options.askedWaitMs;
  }
}

/** What all the calls of one ask may use up together. */
export interface Budget {
  /** By `clock`: nothing is begun that cannot end by then. */
  deadlineAt: number;
  retriesLeft: number;
  /** Attempts so far. */
  attempts: number;
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

/**
 * Makes attempts until one succeeds or the budget is spent; then the last failure is thrown. The wait before the next
 * one is what the provider asked for, else a random share of a doubling bound: what failed together does not come back
 * together. A wait that would not leave any time to the next attempt is not begun.
 * @throws ProviderFailure, or whatever else `attempt` throws
 */
export async function callWithRetries<T>(
  patience: Patience,
  budget: Budget,
  signal: AbortSignal,
  attempt: (made: { attempt: number; retryWaitMs: number }) => Promise<T>,
): Promise<T> {
  let retryWaitMs = 0;
  let last: ProviderFailure | undefined;
  for (let retry = 0; ; retry++) {
    try {
      budget.attempts++;
      return await attempt({ attempt: budget.attempts, retryWaitMs });
    } catch (error) {
      // Left alone from now on, for what it did to the attempt before: that is what the caller asks for.
      if (error instanceof ProviderFailure && error.nature === 'open' && last !== undefined) throw last;
      if (!(error instanceof AttemptFailed)) throw error;
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
