import type { FailureCode } from '#shared/kernel/failure.ts';
import type { Channel } from '#shared/notification/delivery.ts';
import type { notificationView } from '#shared/notification/notification.ts';

/** One delivery, as an adapter receives it. */
export interface DeliveryJob {
  /** The same at every delivery attempt, so that the receiver can recognize a repeat. */
  deliveryJobId: string;
  channel: Channel;
  notification: ReturnType<typeof notificationView>;
}

/** One way to reach a user besides the inbox. Registered in `channels.ts` and tested by `scripts/testing/suites/adapter-suite.ts`. */
export interface Adapter {
  channel: Channel;
  /** Name of the provider in delivery attempts. */
  provider: string;
  /**
   * Sends a delivery. Resolves once the provider has accepted it, with the provider's own id if there is one. Applies its own
   * time limit and ends soon after `signal` aborts. May be called again for the same delivery at any time, even after a success.
   *
   * @throws Retryable, Permanent; any other error counts as Retryable. Messages go into logs and attempt rows, so they quote neither
   * content nor secrets nor the provider's reply.
   */
  send(job: DeliveryJob, options: { signal: AbortSignal }): Promise<{ providerId: string | null }>;
}

/** Thrown if a later delivery attempt may succeed. */
export class Retryable extends Error {
  /** The minimum delay that the provider requests, in milliseconds. */
  readonly afterMs: number | undefined;

  constructor(message: string, options: { afterMs?: number; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? {} : { cause: options.cause });
    this.name = 'Retryable';
    this.afterMs = options.afterMs;
  }
}

/** Thrown if the provider will never accept this delivery. */
export class Permanent extends Error {
  readonly failure: FailureCode = 'RECEIVER_REFUSED';

  constructor(message: string) {
    super(message);
    this.name = 'Permanent';
  }
}
