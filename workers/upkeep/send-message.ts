import type { PostToSubscriber, SubscriberEnd } from '#infra/channels/subscriber.ts';
import { findAttemptOf } from '#infra/mongo/attempt/attempts.ts';
import { findSubscription, noteMessageEnd } from '#infra/mongo/operations/subscriptions.ts';
import { afterFailure, PAUSE_MS, type Subscription, signingSecrets } from '#shared/operations/subscription.ts';
import type { Outcome, Run, WorkerDeps } from '#workers/actor.ts';
import { EVENT_BACKOFF_CAP_MS } from './events-out.ts';

type MessageOutcome = Outcome<'upkeep:webhooks'>;

/**
 * Sends one message to its subscriber, at least once; `webhook-id` is the id of the event, so the receiver recognises a repeat. After a
 * failure the whole subscription pauses, and its other messages are put back unspent: a receiver that hangs holds few slots.
 */
export async function sendMessage(
  deps: WorkerDeps,
  post: PostToSubscriber,
  run: Run<'upkeep:webhooks'>,
): Promise<MessageOutcome> {
  const { command, session, signal } = run;
  const { subscriptionId, eventId, type, createdAt, data, attemptId, studentId } = command.body;
  const subscription = await findSubscription(deps.mongo, subscriptionId, session);
  if (subscription === null) return dropped('DELETED');
  if (subscription.state === 'DISABLED')
    return { kind: 'dead', error: new Error(`subscription ${subscriptionId} is disabled`) };
  const now = deps.now();
  const waitMs = (subscription.pausedUntil?.getTime() ?? 0) - now;
  if (waitMs > 0) return { kind: 'snooze', afterMs: waitMs };
  const student = attemptId === undefined ? {} : await studentOf(deps, run, attemptId, studentId);
  if (student === null) return dropped('ERASED');
  const body = JSON.stringify({ id: eventId, type, createdAt: createdAt.toISOString(), data: { ...data, ...student } });
  const end = await post({
    url: subscription.url,
    id: eventId,
    body,
    secrets: signingSecrets(subscription, now),
    now,
    timeoutMs: deps.config.outboundTimeoutMs,
    signal,
  });
  if (end.kind === 'served') {
    const healed = { failingSince: null, pausedUntil: null, updatedAt: new Date(deps.now()) };
    if (subscription.failingSince !== null) await noteMessageEnd(deps.mongo, subscription, healed);
    return { kind: 'done', result: { status: end.status } };
  }
  return failed(deps, subscription, end);
}

/** Returns the student whom the message names, or null if the student was erased. */
async function studentOf(
  { mongo }: WorkerDeps,
  { session }: Run<'upkeep:webhooks'>,
  attemptId: string,
  studentId: string | undefined,
): Promise<{ studentId: string } | null> {
  const attempt = await findAttemptOf(mongo, { attemptId, ...(studentId === undefined ? {} : { studentId }) }, session);
  return attempt === null || attempt.erasedAt != null ? null : { studentId: attempt.studentId };
}

function dropped(why: 'DELETED' | 'ERASED' | 'GONE') {
  return { kind: 'done', result: { dropped: why } } as const;
}

async function failed(
  deps: WorkerDeps,
  subscription: Subscription,
  end: Exclude<SubscriberEnd, { kind: 'served' }>,
): Promise<MessageOutcome> {
  const isGone = end.kind === 'refused' && end.status === 410;
  const changes = afterFailure(subscription, { now: deps.now(), isGone });
  const isNoted = await noteMessageEnd(deps.mongo, subscription, changes);
  if (isNoted && changes.state === 'DISABLED') {
    deps.alarm('subscription_disabled');
    const about = { subscriptionId: subscription._id, reason: changes.disabledReason };
    deps.log.warn(about, 'event subscription disabled; its messages become dead letters');
  }
  // An operator changed the subscription meanwhile, so that another address may take the message.
  if (isGone && !isNoted) return { kind: 'retry', error: new Error('the subscriber answered 410'), afterMs: PAUSE_MS };
  if (isGone) return dropped('GONE');
  if (end.kind === 'unanswered') return { kind: 'retry', error: end.error, afterMs: PAUSE_MS };
  const afterMs = Math.max(PAUSE_MS, Math.min(end.retryAfterMs ?? 0, EVENT_BACKOFF_CAP_MS));
  return { kind: 'retry', error: new Error(`the subscriber answered ${end.status}`), afterMs };
}
