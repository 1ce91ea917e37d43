import type { ProviderFailure } from '#shared/classifier/tasks/task.ts';

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
