import { LRUCache } from 'lru-cache';
import type { Dispatcher } from 'undici';
import type { WebPushSettings } from '#infra/config/channel-settings.ts';
import type { Watched } from '#infra/config/settings.ts';
import { openGuardedAgent } from '#infra/models/guarded-agent.ts';
import { observed, retryAfterMs } from '#infra/neighbours/call.ts';
import { inCall } from '#infra/trace/spans.ts';
import {
  type Admission,
  admit,
  afterCall,
  type CircuitRules,
  type CircuitState,
  CLOSED,
} from '#shared/classifier/provider/circuit.ts';
import { MINUTE, type Now, SECOND } from '#shared/kernel/time.ts';
import { isPushEndpoint, type PushSubscription, pushPayload, topicOf } from '#shared/notification/push.ts';
import {
  type Adapter,
  type DeliveryJob,
  Paused,
  type Permanent,
  Retryable,
  refusedWith,
  Unreachable,
} from './channel.ts';
import { readReply } from './webhook.ts';

interface WebPushDeps {
  now: Now;
  /** Hosts of push services. The browsers at any other are not called. */
  hosts: readonly string[];
  subscriptionsOf(userId: string): Promise<readonly PushSubscription[]>;
  /** Deletes a subscription whose browser is gone. */
  deleteSubscription(userId: string, id: string): Promise<unknown>;
  /** Tests push to this machine. Default: only public addresses are called. */
  allowsPrivate?: boolean;
}

/**
 * How a push to one browser ended. `gone`: the push service does not know the subscription any more. `foreign`: the browser is at a host that
 * is not allowed. `paused`: the host was not called. `failed`: the push service replied, `unanswered`: it did not.
 */
type PushEnd =
  | { kind: 'taken' | 'gone' | 'foreign' }
  | { kind: 'paused'; afterMs: number }
  | { kind: 'failed' | 'unanswered'; error: Retryable | Permanent };

/**
 * Returns an adapter that pushes each delivery to every browser of the user.
 *
 * One browser that takes it makes the delivery a success: the user is reached, and another attempt would show the notification twice
 * there. Without one, a retryable failure counts first, then a pause, then a permanent failure. A browser that is gone is deleted. One at a
 * host that is not allowed stays, because an operator may allow the host. A user without any other browser is unreachable.
 */
export function webPushAdapter(settings: Watched<WebPushSettings>, deps: WebPushDeps): Adapter {
  let agent: Promise<Dispatcher> | undefined;
  const pauses = openPauses(deps.now);
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
          const end = await pushUnlessPaused(settings, { job, subscription, deps, dispatcher, signal }, pauses);
          // If this fails, the next delivery finds the same end. To fail here would push again to browsers that took the message.
          if (end.kind === 'gone') await deps.deleteSubscription(userId, subscription.id).catch(() => undefined);
          return end;
        }),
      );
      signal.throwIfAborted();
      if (ends.some(({ kind }) => kind === 'taken')) return { providerId: null };
      const failures = ends.flatMap((end) => ('error' in end ? [end.error] : []));
      const waits = ends.flatMap((end) => (end.kind === 'paused' ? [end.afterMs] : []));
      const again = failures.find((error) => error instanceof Retryable);
      if (again === undefined && waits.length > 0) throw new Paused(PAUSED, Math.min(...waits));
      throw again ?? failures[0] ?? new Unreachable('NO_SUBSCRIPTION');
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

/** Pauses a host after this many calls in a row without a reply. After the pause, one call at a time is made until one is answered. */
const PAUSE_RULES: CircuitRules = { failures: 3, cooldownMs: 30 * SECOND, probeMs: MINUTE };
const PAUSED = 'the push service is paused, because it left calls without a reply';
/** Hosts without a reply that a process remembers at most. */
const MAX_PAUSED_HOSTS = 1_000;

/** The hosts that leave calls of this process without a reply. Each such call holds a slot until its time limit. */
interface Pauses {
  admit(host: string): Admission;
  report(host: string, end: 'answer' | 'failure' | 'nothing', asTrial: boolean): void;
}

function openPauses(now: Now): Pauses {
  const states = new LRUCache<string, CircuitState>({ max: MAX_PAUSED_HOSTS });
  const stateOf = (host: string) => states.get(host) ?? CLOSED;

  function store(host: string, state: CircuitState): void {
    if (state.failures > 0) states.set(host, state);
    else states.delete(host);
  }

  return {
    admit(host) {
      const admission = admit(stateOf(host), now(), PAUSE_RULES);
      if (admission.kind === 'trial') store(host, admission.state);
      return admission;
    },
    report(host, kind, asTrial) {
      store(host, afterCall(stateOf(host), { kind }, { now: now(), rules: PAUSE_RULES, asTrial }));
    },
  };
}

async function pushUnlessPaused(settings: Watched<WebPushSettings>, call: PushCall, pauses: Pauses): Promise<PushEnd> {
  const { endpoint } = call.subscription;
  // A rule that is stricter today also holds for what was stored before.
  if (call.deps.allowsPrivate !== true && !isPushEndpoint(endpoint, call.deps.hosts)) return { kind: 'foreign' };
  const { host } = new URL(endpoint);
  const admission = pauses.admit(host);
  if (admission.kind === 'open' || admission.kind === 'throttled')
    return { kind: 'paused', afterMs: admission.retryAfterMs };
  const report = (end: Parameters<Pauses['report']>[1]) => pauses.report(host, end, admission.kind === 'trial');
  try {
    const end = await push(settings, call);
    report(end.kind === 'unanswered' ? 'failure' : 'answer');
    return end;
  } catch (error) {
    report('nothing');
    throw error;
  }
}

/** @throws the signal's reason, if the signal was aborted */
async function push(settings: Watched<WebPushSettings>, call: PushCall): Promise<PushEnd> {
  const { subscription, signal } = call;
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
    return { kind: 'unanswered', error: new Retryable(`the push service ${why}`, { cause: withoutAddress(cause) }) };
  }
}

async function post(
  { keys, subject, ttlSeconds }: WebPushSettings,
  { job, subscription, deps, dispatcher }: PushCall,
  signal: AbortSignal,
): Promise<Response> {
  // A worker without push messages loads no library for signing.
  const { encryptPush, vapidHeader } = await import('./push-message.ts');
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
