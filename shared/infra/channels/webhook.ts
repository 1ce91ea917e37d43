import { Webhook } from 'standardwebhooks';
import type { CallObserver } from '#infra/config/settings.ts';
import { observed, retryAfterMs } from '#infra/neighbours/call.ts';
import { inCall, type SentCall } from '#infra/trace/spans.ts';
import type { Now } from '#shared/kernel/time.ts';
import { type Adapter, type DeliveryJob, Permanent, Retryable, refusedWith } from './channel.ts';

interface WebhookSettings {
  url: string;
  /** Each secret signs: the current one first, then earlier ones that a receiver may still use. */
  secrets: readonly string[];
  /** Time limit for connect, headers and body together, in milliseconds. */
  timeoutMs: number;
  called?: CallObserver;
  /** Returns the signed time of a delivery attempt, in Unix milliseconds. */
  now: Now;
}

/** Maximum bytes of a successful reply that are read. Its content is ignored, but a connection whose body was read can be reused. */
const MAX_REPLY_BYTES = 64 * 1024;

/**
 * Returns an adapter that posts each delivery to one URL, with a new signature at each delivery attempt.
 *
 * 2xx with a complete body is a success. No reply, an incomplete one, 408, 429 and 5xx are retryable. Every other status is permanent.
 * That includes redirects, because a request that is signed for one address must not go to another.
 */
export function webhookAdapter(settings: WebhookSettings): Adapter {
  return {
    channel: 'webhook',
    provider: 'webhook',
    async send(job, { signal }) {
      const timeout = AbortSignal.timeout(settings.timeoutMs);
      try {
        return await inCall({ method: 'POST', url: settings.url }, async (sent) => {
          const response = await observed(settings.called, signal, () =>
            post(settings, job, { sent, signal: AbortSignal.any([timeout, signal]) }),
          );
          sent.answered(response.status);
          if (!response.ok) throw await refusal(response);
          await readReply(response);
          return { providerId: null };
        });
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof Retryable || error instanceof Permanent) throw error;
        throw new Retryable(
          timeout.aborted
            ? `the webhook receiver did not answer within ${settings.timeoutMs} ms`
            : 'the webhook receiver sent no complete reply',
          { cause: error },
        );
      }
    },
  };
}

function post(
  { url, secrets, now }: WebhookSettings,
  job: DeliveryJob,
  { sent, signal }: { sent: SentCall; signal: AbortSignal },
): Promise<Response> {
  const { deliveryJobId, channel, notification } = job;
  const body = JSON.stringify({ deliveryJobId, channel, notification });
  return fetch(url, {
    method: 'POST',
    redirect: 'manual',
    signal,
    body,
    headers: {
      'content-type': 'application/json; charset=utf-8',
      // The reply's content is ignored, so it needs no compression.
      'accept-encoding': 'identity',
      ...sent.headers(),
      ...signWebhook({ id: deliveryJobId, now: now(), body }, secrets),
    },
  });
}

async function refusal(response: Response): Promise<Retryable | Permanent> {
  const { status, headers } = response;
  // Closing the reply may fail, but its status has been read already.
  await response.body?.cancel().catch(() => undefined);
  return refusedWith(status, `the webhook receiver answered ${status}`, retryAfterMs(headers));
}

/** Reads the body to its end, or up to the cap, at which the connection is dropped. Rejects if the body is incomplete. */
export async function readReply(response: Response): Promise<void> {
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.byteLength;
    if (size > MAX_REPLY_BYTES) return;
  }
}

// Signatures by the Standard Webhooks convention (standardwebhooks.com), which public libraries verify.

interface SignedRequest {
  /** The same at each delivery attempt of a job. */
  id: string;
  /** Unix milliseconds; whole seconds are signed. */
  now: number;
  body: string;
}

/**
 * Returns the three headers of a signed request. Each secret signs, in the given order, so that a receiver which holds any one of
 * them accepts the request while the secret is being changed. The time is signed too: a receiver can refuse an old recording.
 */
export function signWebhook({ id, now, body }: SignedRequest, secrets: readonly string[]): Record<string, string> {
  const sentAt = new Date(now);
  return {
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(now / 1_000)),
    'webhook-signature': secrets.map((secret) => new Webhook(secret).sign(id, sentAt, body)).join(' '),
  };
}
