import type { FailureCode } from '#shared/kernel/failure.ts';
import { HOUR } from '#shared/kernel/time.ts';
import type { Channel, UnreachableReason } from '#shared/notification/delivery.ts';
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
   * @throws Retryable, Permanent, Unreachable, Paused; any other error counts as Retryable. Messages go into logs and attempt rows, so they quote neither
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

/** Upper bound for a `Retry-After`. */
const MAX_RETRY_AFTER_MS = HOUR;

/** Returns the failure for which another attempt may succeed, after the delay (ms) that a reply requests; null without one. */
export function retryLater(message: string, afterMs: number | null): Retryable {
  return new Retryable(message, afterMs === null ? {} : { afterMs: Math.min(afterMs, MAX_RETRY_AFTER_MS) });
}

/** Returns the failure that a reply other than 2xx means: 408, 429 and 5xx are retryable, every other status is permanent. */
export function refusedWith(status: number, message: string, afterMs: number | null): Retryable | Permanent {
  return status === 408 || status === 429 || status >= 500 ? retryLater(message, afterMs) : new Permanent(message);
}

/** Thrown if the provider will never accept this delivery. */
export class Permanent extends Error {
  readonly failure: FailureCode = 'RECEIVER_REFUSED';

  constructor(message: string) {
    super(message);
    this.name = 'Permanent';
  }
}

/** Thrown if the provider was not called, because it has left earlier calls without a reply. The delivery waits and spends no attempt. */
export class Paused extends Error {
  /** Time until a call may be made, in milliseconds. */
  readonly afterMs: number;

  constructor(message: string, afterMs: number) {
    super(message);
    this.name = 'Paused';
    this.afterMs = afterMs;
  }
}

/** Thrown if the user cannot be reached over this channel. The delivery is suppressed for good, with the reason. */
export class Unreachable extends Error {
  readonly reason: UnreachableReason;

  constructor(reason: UnreachableReason) {
    super(`the user is not reachable: ${reason}`);
    this.name = 'Unreachable';
    this.reason = reason;
  }
}
