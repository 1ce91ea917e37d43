import { ringFor } from '#api/ring-and-wait.ts';
import type { Call, Reply } from '#api/route.ts';
import { erasedAmong, isErased } from '#infra/mongo/erased-persons.ts';
import { countAlertCall } from '#infra/mongo/notification/alert-calls.ts';
import { idsOfFanOut } from '#infra/mongo/notification/fan-out.ts';
import { insertNotification } from '#infra/mongo/notification/inbox-changes.ts';
import { putSnapshot } from '#infra/mongo/notification/snapshots.ts';
import { storeSuppressed } from '#infra/mongo/notification/suppressions.ts';
import { eraseStoredMeanwhile } from '#infra/mongo/person/stored-meanwhile.ts';
import type {
  BatchRequest,
  CreateRequest,
  IntakeRequest,
  SnapshotRequest,
  WeakTopicAlertRequest,
  WeakTopicRequest,
} from '#shared/generated/notification.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { newId } from '#shared/kernel/ids.ts';
import { SECOND } from '#shared/kernel/time.ts';
import { eventView, type NotificationEvent, sourcePairFaults } from '#shared/notification/event.ts';
import { concernsErased, personsIn, withoutErasedActor } from '#shared/notification/fan-out.ts';
import { newNotification, notificationView } from '#shared/notification/notification.ts';
import { preferenceKey, type Suppression, suppressionOf } from '#shared/notification/preferences.ts';
import { newFromSnapshot, readSnapshot } from '#shared/notification/snapshot.ts';
import {
  ALERT_CALLS_AN_HOUR,
  reportedTopicFaults,
  weakTopicFanOut,
  weakTopicFaults,
} from '#shared/notification/weak-topic.ts';
import { callerOf, type NotificationDeps } from './deps.ts';
import { type FannedOut, fanOutEvent, fanOutRows } from './fan-out.ts';

/**
 * Creates one notification for one recipient. If the recipient has disabled or muted it, replies 200 with the reason and creates
 * none; the reason is stored for operators.
 */
export async function createOneNotification(deps: NotificationDeps, call: Call<CreateRequest>): Promise<Reply> {
  const input = call.body;
  const [preferences, erased] = await Promise.all([
    deps.intake.preferencesOf([input.userId]),
    deps.intake.erasedAmong(personsIn([input], null)),
  ]);
  const now = deps.now();
  const wanted = preferences.get(input.userId) ?? null;
  const reason = concernsErased(input, erased) ? 'ERASED' : suppressionOf(wanted, preferenceKey(input), new Date(now));
  if (reason !== null) {
    const { userId, type } = input;
    await storeSuppressed(deps.mongo, [{ userId, reason, type }], { requestId: call.requestId, now });
    await eraseStoredMeanwhile(deps.mongo, [userId], { known: erased, now, read: deps.intake.erasedAmong });
    return suppressedReply(userId, reason);
  }
  const origin = { fanOutId: null, sourceEventRef: null, organizationId: call.identity.organizationId ?? null };
  const row = newNotification(withoutErasedActor(input, erased), {
    id: newId(now),
    now: new Date(now),
    place: 'INBOX',
    ordinal: 0,
    origin,
  });
  const deliveries = { channels: deps.channels, maxAttempts: deps.deliveryAttempts, preferences };
  const posted = await insertNotification(deps.mongo, row, { deliveries, now });
  const { erasedAmong: read } = deps.intake;
  const late = await eraseStoredMeanwhile(deps.mongo, personsIn([input], null), { known: erased, now, read });
  if (concernsErased(input, late)) return suppressedReply(input.userId, 'ERASED');
  ringFor(deps, posted);
  deps.notifyStreams([row.userId]);
  const notification = notificationView(withoutErasedActor(row, late));
  return { status: 201, data: { notification, created: 1 } };
}

function suppressedReply(userId: string, reason: Suppression['reason']): Reply {
  return { status: 200, data: { notification: null, created: 0, suppressed: [{ userId, reason }] } };
}

/**
 * Creates many notifications, all or none. If the request carries a producer's event, a repeat creates none and returns the ids of
 * the first.
 */
export async function createBatch(deps: NotificationDeps, call: Call<BatchRequest>): Promise<Reply | Rejection> {
  const { notifications, event = null } = call.body;
  const { sender, organizationId = null } = call.identity;
  if (event !== null) {
    // An ADMIN has no sender and may submit events of any producer.
    const refused = whyEventRefused(event, (service) => sender === undefined || service === sender, '/event');
    if (refused !== null) return refused;
  }
  const made =
    event === null
      ? await fanOutRows(deps, { notifications, event, organizationId }, call)
      : await fanOutEvent(deps, { notifications, event, organizationId });
  if (made.kind === 'replayed') {
    const ids = await idsOfFanOut(deps.mongo, made.event._id);
    return { status: 200, data: { created: 0, suppressed: [], notifications: ids, event: eventView(made.event) } };
  }
  const { rows, suppressed } = made.plan;
  const ids = rows.map(({ _id }) => _id);
  const stored = made.event === null ? null : eventView(made.event);
  return { status: 201, data: { created: ids.length, suppressed, notifications: ids, event: stored } };
}

/**
 * Stores a notification as another system has it, or as this service returned it. No channel delivers it, because that system has already
 * done so. Rejects a snapshot whose notification belongs to another user, or is to an erased person or about one.
 */
export async function storeSnapshot(deps: NotificationDeps, call: Call<SnapshotRequest>): Promise<Reply | Rejection> {
  const { notificationId = '' } = call.params;
  if (call.body.id != null && call.body.id !== notificationId) {
    return { rejected: 'VALIDATION_FAILED', details: [{ path: '/id', message: 'must equal the id in the path' }] };
  }
  const sent = readSnapshot(notificationId, call.body);
  const persons = personsIn([sent], null);
  const erased = await erasedAmong(deps.mongo, persons);
  if (concernsErased(sent, erased)) return { rejected: 'PERSON_ERASED' };
  const snapshot = withoutErasedActor(sent, erased);
  const { organizationId = null } = call.identity;
  const now = new Date(deps.now());
  const stored = await putSnapshot(deps.mongo, snapshot, (first) => newFromSnapshot(first, { now, organizationId }));
  const late = await eraseStoredMeanwhile(deps.mongo, persons, { known: erased, now: now.getTime() });
  if (concernsErased(sent, late)) return { rejected: 'PERSON_ERASED' };
  switch (stored.kind) {
    case 'foreign':
      return { rejected: 'NOTIFICATION_OWNER_MISMATCH' };
    case 'created':
    case 'updated': {
      deps.notifyStreams([snapshot.userId]);
      const notification = notificationView(withoutErasedActor(stored.notification, late));
      return { status: stored.kind === 'created' ? 201 : 200, data: { notification } };
    }
  }
}

/** Creates one alert for each parent from a weak topic that a service found; a repeated event creates none. */
export async function receiveWeakTopic(
  deps: NotificationDeps,
  call: Call<WeakTopicRequest>,
): Promise<Reply | Rejection> {
  const details = weakTopicFaults(call.body, []);
  if (details.length > 0) return { rejected: 'VALIDATION_FAILED', details };
  const { organizationId = null } = call.identity;
  return intakeReply(await fanOutEvent(deps, { ...weakTopicFanOut(call.body, null), organizationId }));
}

/**
 * Creates the alerts of a weak topic that a user reports, under the user's name. The replay key is the user's own, so the call
 * neither returns nor blocks the event of another. Rejects more than ALERT_CALLS_AN_HOUR calls of one user in any hour.
 */
export async function raiseWeakTopic(
  deps: NotificationDeps,
  call: Call<WeakTopicAlertRequest>,
): Promise<Reply | Rejection> {
  const details = reportedTopicFaults(call.body, []);
  if (details.length > 0) return { rejected: 'VALIDATION_FAILED', details };
  const { id: actorId } = callerOf(call.identity);
  if (await isErased(deps.mongo, actorId)) return { rejected: 'PERSON_ERASED' };
  const counted = await countAlertCall(deps.mongo, actorId, { limit: ALERT_CALLS_AN_HOUR, now: deps.now() });
  if (counted.kind === 'refused') {
    const message = `The caller has sent ${ALERT_CALLS_AN_HOUR} alerts within an hour; retry later`;
    return { rejected: 'RATE_LIMITED', message, retryAfter: Math.ceil(counted.retryAfterMs / SECOND) };
  }
  const { organizationId = null } = call.identity;
  const fanOut = { ...weakTopicFanOut(call.body, actorId), organizationId, keyedByActor: true };
  return intakeReply(await fanOutEvent(deps, fanOut));
}

/**
 * Stores an event of the sending producer and creates the notifications in its body. Rejects an event that names another service as
 * its source.
 */
export async function receiveEvent(deps: NotificationDeps, call: Call<IntakeRequest>): Promise<Reply | Rejection> {
  const { notifications, ...event } = call.body;
  const { sender, organizationId = null } = call.identity;
  const refused = whyEventRefused(event, (service) => service === sender);
  if (refused !== null) return refused;
  return intakeReply(await fanOutEvent(deps, { notifications: notifications ?? [], event, organizationId }));
}

/**
 * Returns the rejection of an event, or null if it is accepted. `maySend` returns true if the caller may submit events of this
 * service.
 */
function whyEventRefused(
  event: { sourceService?: string | null; sourceEventId?: string | null },
  maySend: (service: string) => boolean,
  at = '',
): Rejection | null {
  const details = sourcePairFaults(event, at);
  if (details.length > 0) return { rejected: 'VALIDATION_FAILED', details };
  const isForeign = event.sourceService != null && !maySend(event.sourceService);
  return isForeign ? { rejected: 'NOTIFICATION_SOURCE_MISMATCH' } : null;
}

/** Returns the reply to an event's sender: how many notifications it created, or that it was a replay. */
function intakeReply(made: FannedOut<NotificationEvent>): Reply {
  const event = eventView(made.event);
  if (made.kind === 'replayed') return { status: 200, data: { event, created: 0, replayed: true } };
  const { rows, suppressed } = made.plan;
  return { status: 201, data: { event, created: rows.length, suppressed, replayed: false } };
}
