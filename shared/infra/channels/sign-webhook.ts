import { createHmac } from 'node:crypto';

/**
 * The `X-Signature` of a body: `t=<unix ms>,v1=<hex HMAC-SHA256 of "t.body">`. The time is under the signature, so that a
 * receiver may refuse what somebody recorded and sends again later. How a receiver checks it: docs/webhook.md.
 */
export function signWebhook(body: string, { secret, now }: { secret: string; now: number }): string {
  const t = Math.floor(now);
  return `t=${t},v1=${createHmac('sha256', secret).update(`${t}.${body}`).digest('hex')}`;
}
