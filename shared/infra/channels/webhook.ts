import { createHmac } from 'node:crypto';
import { retryAfterMs } from '#infra/neighbours/call.ts';
import { HOUR, type Now } from '#shared/kernel/time.ts';
import { type Adapter, type DeliveryJob, Permanent, Retryable } from './channel.ts';

interface WebhookSettings {
  url: string;
  secret: string;
  /** Over connect, headers and body together. */
  timeoutMs: number;
  /** Unix milliseconds: what is signed as the time of a try. */
  now: Now;
}

/** Of a reply that says yes: nothing in it matters, but a connection whose body was read can be used again. */
const MOST_REPLY_BYTES = 64 * 1024;
/** A receiver may ask for more patience than the schedule has, up to here. */
const MOST_PATIENCE_MS = HOUR;

/**
 * Posts each delivery to one URL, signed anew at each try. 2xx with its whole body is a yes; no answer, a cut one, 408, 429
 * and 5xx are retryable; every other answer is permanent, a redirect as well: what is signed for one address goes to no other.
 */
export function webhookAdapter(settings: WebhookSettings): Adapter {
  return {
    channel: 'webhook',
    provider: 'webhook',
    async send(job, { signal }) {
      const timeout = AbortSignal.timeout(settings.timeoutMs);
      try {
        const response = await post(settings, job, AbortSignal.any([timeout, signal]));
        if (!response.ok) throw await refusal(response);
        await drop(response);
        return { providerId: null };
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof Retryable || error instanceof Permanent) throw error;
        throw new Retryable(
          timeout.aborted
            ? `the webhook receiver did not answer within ${settings.timeoutMs} ms`
            : 'the webhook receiver gave no whole answer',
          { cause: error },
        );
      }
    },
  };
}

function post({ url, secret, now }: WebhookSettings, job: DeliveryJob, signal: AbortSignal): Promise<Response> {
  const { deliveryJobId, channel, notification } = job;
  const body = JSON.stringify({ deliveryJobId, channel, notification });
  return fetch(url, {
    method: 'POST',
    redirect: 'manual',
    signal,
    body,
    headers: {
      'content-type': 'application/json; charset=utf-8',
      // Nothing that is read here is worth unpacking.
      'accept-encoding': 'identity',
      'x-signature': signWebhook(body, { secret, now: now() }),
    },
  });
}

async function refusal(response: Response): Promise<Retryable | Permanent> {
  const { status, headers } = response;
  // A failure to hang up changes nothing of what was said.
  await response.body?.cancel().catch(() => undefined);
  const message = `the webhook receiver answered ${status}`;
  if (status !== 408 && status !== 429 && status < 500) return new Permanent(message);
  const afterMs = retryAfterMs(headers);
  return new Retryable(message, afterMs === null ? {} : { afterMs: Math.min(afterMs, MOST_PATIENCE_MS) });
}

/** Reads the body to its end or to the cap, past which the connection is given up; rejects where it is cut. */
async function drop(response: Response): Promise<void> {
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.byteLength;
    if (size > MOST_REPLY_BYTES) return;
  }
}

/**
 * The `X-Signature` of a body: `t=<unix ms>,v1=<hex HMAC-SHA256 of "t.body">`. The time is under the signature, so that a
 * receiver may refuse what somebody recorded and sends again later. How a receiver checks it: docs/webhook.md.
 */
export function signWebhook(body: string, { secret, now }: { secret: string; now: number }): string {
  const t = Math.floor(now);
  return `t=${t},v1=${createHmac('sha256', secret).update(`${t}.${body}`).digest('hex')}`;
}
