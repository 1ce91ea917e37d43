import { type Adapter, type DeliveryJob, Permanent, Retryable } from '#infra/channels/channel.ts';
import type { TryEnd } from '#infra/mongo/notification/delivery-attempts.ts';
import type { Outcome } from '#workers/outcome.ts';

/** How a try ended, for the job and for its row. */
export interface Sent {
  outcome: Extract<Outcome, { kind: 'done' | 'retry' | 'dead' }>;
  end: TryEnd;
}

/**
 * One call of the adapter. Whatever it throws is the channel's own fault and spends the try, a network fault as well; only a
 * run that was cut short throws on, and leaves its row as it is.
 */
export async function sendOver(adapter: Adapter, job: DeliveryJob, signal: AbortSignal): Promise<Sent> {
  try {
    const { providerId } = await adapter.send(job, { signal });
    return { outcome: { kind: 'done', as: 'SENT', result: { providerId } }, end: { providerId } };
  } catch (thrown) {
    signal.throwIfAborted();
    const error = thrown instanceof Error ? thrown : new Error(String(thrown));
    return { outcome: failure(error), end: { error: error.message } };
  }
}

function failure(error: Error): Sent['outcome'] {
  if (error instanceof Permanent) return { kind: 'dead', error };
  const afterMs = error instanceof Retryable ? error.afterMs : undefined;
  return { kind: 'retry', error, ...(afterMs === undefined ? {} : { afterMs }) };
}
