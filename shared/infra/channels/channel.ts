import type { Channel } from '#shared/notification/delivery.ts';
import type { notificationView } from '#shared/notification/notification.ts';

/** What an adapter is given to deliver. */
export interface DeliveryJob {
  /** The same at every try: whatever the adapter reaches must be able to tell a repeat by it. */
  deliveryJobId: string;
  channel: Channel;
  notification: ReturnType<typeof notificationView>;
}

/** One way to reach a user beside the inbox. Registered in `channels.ts`, held to `scripts/testing/suites/adapter-suite.ts`. */
export interface Adapter {
  channel: Channel;
  /** By which delivery attempts name it. */
  provider: string;
  /**
   * Resolves once the provider has taken the job, with the provider's own name for it, if it gives one. Bounded in time by
   * itself, and ends soon after `signal`. May be called again for the same job at any time, after a success as well.
   * @throws Retryable, Permanent; anything else counts as Retryable. Messages go into logs and attempt rows: they quote
   * neither content nor secrets nor what the provider said.
   */
  send(job: DeliveryJob, options: { signal: AbortSignal }): Promise<{ providerId: string | null }>;
}

/** The same job may well be taken later. */
export class Retryable extends Error {
  /** The least rest that the provider asks for, in milliseconds. */
  readonly afterMs: number | undefined;

  constructor(message: string, options: { afterMs?: number; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? {} : { cause: options.cause });
    this.name = 'Retryable';
    this.afterMs = options.afterMs;
  }
}

/** The provider will never take this job. */
export class Permanent extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'Permanent';
  }
}
