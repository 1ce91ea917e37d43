import type { Agent } from 'undici';
import { isForbiddenAddress, openGuardedAgent } from '#infra/models/guarded-agent.ts';
import { retryAfterMs } from '#infra/neighbours/call.ts';
import { inCall } from '#infra/trace/spans.ts';
import { addressKind } from '#shared/classifier/provider/address-kind.ts';
import { signWebhook } from './webhook.ts';

/** Addresses at which subscribers may be. */
export interface SubscriberRules {
  /** True: addresses of private networks too, and every port, for receivers inside the cluster. */
  allowsPrivate: boolean;
  production: boolean;
}

/**
 * Ports of subscribers: the default of https, and 8443. An operator sees how a call ended, and could otherwise find out which ports of other
 * hosts are open.
 */
const PORTS = ['', '8443'];

/** Returns the fault of a subscriber's address, or null. A host name is checked again at each call, by the addresses that it has then. */
export function subscriberUrlFault(text: string, { allowsPrivate, production }: SubscriberRules): string | null {
  if (!URL.canParse(text)) return 'must be an absolute URL';
  const { protocol, hostname, port, username, password, hash } = new URL(text);
  if (username !== '' || password !== '' || hash !== '') return 'must have no user, password or fragment';
  const kind = addressKind(hostname);
  const isOwn = !production && (kind === 'loopback' || hostname === 'localhost');
  if (protocol !== 'https:' && !(protocol === 'http:' && isOwn)) return 'must be https';
  if (isOwn) return null;
  const isPublic = kind === null || kind === 'public';
  if (!isPublic && (kind === 'forbidden' || !allowsPrivate)) return 'must be no address of a private network';
  return allowsPrivate || PORTS.includes(port) ? null : 'must have the port 443 or 8443';
}

/** A signed message to a subscriber. */
export interface SubscriberPost {
  url: string;
  id: string;
  body: string;
  secrets: readonly string[];
  /** Unix milliseconds. */
  now: number;
  timeoutMs: number;
  signal: AbortSignal;
}

/** `refused`: the subscriber answered, but not with 2xx. `unanswered`: there was no reply, or its address is forbidden. */
export type SubscriberEnd =
  | { kind: 'served'; status: number }
  | { kind: 'refused'; status: number; retryAfterMs: number | null }
  | { kind: 'unanswered'; error: Error };

export type PostToSubscriber = (post: SubscriberPost) => Promise<SubscriberEnd>;

/** Opens calls to subscribers. The HTTP client is loaded by the first call. */
export function openSubscriberPosts(rules: SubscriberRules): PostToSubscriber {
  let agent: Promise<Agent> | undefined;
  return async (post) => {
    const fault = subscriberUrlFault(post.url, rules);
    if (fault !== null) return { kind: 'unanswered', error: new Error(`the address of the subscriber ${fault}`) };
    agent ??= openGuardedAgent({ allowsPrivate: rules.allowsPrivate || !rules.production });
    return send(post, await agent);
  };
}

async function send({ url, timeoutMs, signal, ...message }: SubscriberPost, dispatcher: Agent): Promise<SubscriberEnd> {
  const timeout = AbortSignal.timeout(timeoutMs);
  try {
    // A subscriber is no part of the system: it receives neither the id of the request nor that of the trace.
    return await inCall({ method: 'POST', url }, async (sent): Promise<SubscriberEnd> => {
      const init = {
        method: 'POST',
        redirect: 'manual',
        dispatcher,
        signal: AbortSignal.any([timeout, signal]),
        headers: {
          'content-type': 'application/json; charset=utf-8',
          'accept-encoding': 'identity',
          ...signWebhook(message, message.secrets),
        },
        body: message.body,
      };
      const { status, headers, ok, body } = await fetch(url, init as unknown as RequestInit);
      sent.answered(status);
      // The content of a reply is ignored. A status that has been read counts, even if the rest of the reply is lost.
      await body?.cancel().catch(() => undefined);
      return ok ? { kind: 'served', status } : { kind: 'refused', status, retryAfterMs: retryAfterMs(headers) };
    });
  } catch (error) {
    signal.throwIfAborted();
    const text = timeout.aborted
      ? `the subscriber did not answer within ${timeoutMs} ms`
      : isForbiddenAddress(error)
        ? 'the host of the subscriber has an address of a private network'
        : 'the subscriber sent no complete reply';
    return { kind: 'unanswered', error: new Error(text, { cause: error }) };
  }
}
