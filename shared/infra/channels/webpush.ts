import type { Dispatcher } from 'undici';
import type { WebPushSettings } from '#infra/config/channel-settings.ts';
import type { Watched } from '#infra/config/settings.ts';
import { openGuardedAgent } from '#infra/models/guarded-agent.ts';
import { observed, retryAfterMs } from '#infra/neighbours/call.ts';
import { inCall } from '#infra/trace/calls.ts';
import type { Now } from '#shared/kernel/time.ts';
import { isPushEndpoint, type PushSubscription, pushPayload, topicOf } from '#shared/notification/push.ts';
import { type Adapter, type DeliveryJob, type Permanent, Retryable, refusedWith, Unreachable } from './channel.ts';
import { encryptPush, vapidHeader } from './push-message.ts';
import { readReply } from './webhook.ts';

interface WebPushDeps {
  now: Now;
  subscriptionsOf(userId: string): Promise<readonly PushSubscription[]>;
  /** Deletes a subscription whose browser is gone. */
  deleteSubscription(userId: string, id: string): Promise<unknown>;
  /** Tests push to this machine. Default: only public addresses are called. */
  allowsPrivate?: boolean;
}

/** How a push to one browser ended. `gone`: the push service does not know the subscription any more. */
type PushEnd = { kind: 'taken' } | { kind: 'gone' } | { kind: 'failed'; error: Retryable | Permanent };

/**
 * Returns an adapter that pushes each delivery to every browser of the user.
 *
 * One browser that takes it makes the delivery a success: the user is reached, and another attempt would show the notification twice
 * there. Without one, a retryable failure counts before a permanent one. A browser that is gone is deleted; a user without a browser is
 * unreachable.
 */
export function webPushAdapter(settings: Watched<WebPushSettings>, deps: WebPushDeps): Adapter {
  let agent: Promise<Dispatcher> | undefined;
  return {
    channel: 'webpush',
    provider: 'webpush',
    async send(job, { signal }) {
      signal.throwIfAborted();
      const { userId } = job.notification;
      const subscriptions = await deps.subscriptionsOf(userId);
      if (subscriptions.length === 0) throw new Unreachable('NO_SUBSCRIPTION');
      agent ??= openGuardedAgent({ allowsPrivate: deps.allowsPrivate === true });
      const dispatcher = await agent;
      const ends = await Promise.all(
        subscriptions.map(async (subscription) => {
          const end = await push(settings, { job, subscription, deps, dispatcher, signal });
          // If this fails, the next delivery finds the same end. To fail here would push again to browsers that took the message.
          if (end.kind === 'gone') await deps.deleteSubscription(userId, subscription.id).catch(() => undefined);
          return end;
        }),
      );
      signal.throwIfAborted();
      if (ends.some(({ kind }) => kind === 'taken')) return { providerId: null };
      const failures = ends.flatMap((end) => (end.kind === 'failed' ? [end.error] : []));
      throw failures.find((error) => error instanceof Retryable) ?? failures[0] ?? new Unreachable('NO_SUBSCRIPTION');
    },
  };
}

interface PushCall {
  job: DeliveryJob;
  subscription: PushSubscription;
  deps: WebPushDeps;
  dispatcher: Dispatcher;
  signal: AbortSignal;
}

async function push(settings: Watched<WebPushSettings>, call: PushCall): Promise<PushEnd> {
  const { subscription, deps, signal } = call;
  // A rule that is stricter today also holds for what was stored before.
  if (deps.allowsPrivate !== true && !isPushEndpoint(subscription.endpoint)) return { kind: 'gone' };
  const timeout = AbortSignal.timeout(settings.timeoutMs);
  try {
    // A push service is no part of the system: it gets neither the id of the request nor that of the trace.
    return await inCall({ method: 'POST', url: subscription.endpoint }, async (sent) => {
      const response = await observed(settings.called, signal, () =>
        post(settings, call, AbortSignal.any([timeout, signal])),
      );
      sent.answered(response.status);
      if (response.ok) await readReply(response);
      // Closing the reply may fail, but its status has been read already.
      else await response.body?.cancel().catch(() => undefined);
      return endOf(response);
    });
  } catch (cause) {
    if (signal.aborted) throw signal.reason;
    const why = timeout.aborted ? `did not answer within ${settings.timeoutMs} ms` : 'sent no complete reply';
    return { kind: 'failed', error: new Retryable(`the push service ${why}`, { cause: withoutAddress(cause) }) };
  }
}

function post(
  { keys, subject, ttlSeconds }: WebPushSettings,
  { job, subscription, deps, dispatcher }: PushCall,
  signal: AbortSignal,
): Promise<Response> {
  const { endpoint } = subscription;
  const init = {
    method: 'POST',
    redirect: 'manual',
    signal,
    dispatcher,
    headers: {
      authorization: vapidHeader(keys, { endpoint, subject, now: deps.now() }),
      'content-type': 'application/octet-stream',
      'content-encoding': 'aes128gcm',
      ttl: String(ttlSeconds),
      urgency: 'normal',
      // A repeat takes the place of a message that the browser has not fetched yet.
      topic: topicOf(job.notification.id),
    },
    body: encryptPush(pushPayload(job.deliveryJobId, job.notification), subscription),
  };
  // Node's fetch accepts dispatchers of undici's same generation. The types of both packages differ only in unused parts.
  return fetch(endpoint, init as unknown as RequestInit);
}

function endOf({ ok, status, headers }: Response): PushEnd {
  if (ok) return { kind: 'taken' };
  if (status === 404 || status === 410) return { kind: 'gone' };
  const error = refusedWith(status, `the push service answered ${status}`, retryAfterMs(headers));
  return { kind: 'failed', error };
}

/** Returns an error with the code alone. The message of a network fault names the host, and that of a URL the whole endpoint. */
function withoutAddress(error: unknown): Error {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : 'unknown error';
  return Object.assign(new Error(`push: ${code}`), { code });
}
