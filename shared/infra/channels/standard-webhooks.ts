import { Webhook } from 'standardwebhooks';

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
