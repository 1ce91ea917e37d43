import type { Call, Reply } from '#api/route.ts';
import { isErased } from '#infra/mongo/erased-persons.ts';
import { insertDeliveryAttempt, listDeliveryAttempts } from '#infra/mongo/notification/delivery-attempts.ts';
import { type SupportCounts, summarizeSupport } from '#infra/mongo/notification/summarize-support.ts';
import { eraseStoredMeanwhile } from '#infra/mongo/person/stored-meanwhile.ts';
import type { DeliveryAttemptQuery, DeliveryAttemptRequest } from '#shared/generated/notification.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { newId } from '#shared/kernel/ids.ts';
import { instantOf } from '#shared/kernel/time.ts';
import { DELIVERY_STATUSES, deliveryAttemptView, recordedAttempt } from '#shared/notification/delivery.ts';
import { notificationView } from '#shared/notification/notification.ts';
import { callerOf, type NotificationDeps, ownerIn, pagedData, pageOf } from './deps.ts';

/** Stores a delivery attempt that another service made and reports. */
export async function recordDeliveryAttempt(
  deps: NotificationDeps,
  call: Call<DeliveryAttemptRequest>,
): Promise<Reply | Rejection> {
  if (await isErased(deps.mongo, call.body.userId)) return { rejected: 'PERSON_ERASED' };
  const now = deps.now();
  const { organizationId = null } = call.identity;
  const facts = { id: newId(now), now: new Date(now), organizationId };
  const attempt = await insertDeliveryAttempt(deps.mongo, recordedAttempt(call.body, facts));
  const late = await eraseStoredMeanwhile(deps.mongo, [call.body.userId], { now });
  if (late.size > 0) return { rejected: 'PERSON_ERASED' };
  return { status: 201, data: { deliveryAttempt: deliveryAttemptView(attempt) } };
}

/** Returns a page of delivery attempts of the caller's notifications; of all users' for an ADMIN. */
export async function showDeliveryAttempts(
  deps: NotificationDeps,
  call: Call<unknown, DeliveryAttemptQuery>,
): Promise<Reply> {
  const { query } = call;
  const page = pageOf(query);
  const wanted = {
    userId: ownerIn('role', callerOf(call.identity)) ?? query.userId ?? null,
    notificationId: query.notificationId ?? null,
    organizationId: query.organizationId ?? null,
    channel: query.channel ?? null,
    provider: query.provider ?? null,
    status: query.status ?? null,
    from: instantOf(query.from),
    to: instantOf(query.to),
  };
  const { rows, total } = await listDeliveryAttempts(deps.mongo, wanted, page);
  return { status: 200, data: pagedData(rows.map(deliveryAttemptView), page, total) };
}

const RECENT = 20;

/** Returns counts of notifications, events and delivery attempts, for the support queues of admins. */
export async function showSupportSummary(deps: NotificationDeps): Promise<Reply> {
  const counts = await summarizeSupport(deps.mongo, RECENT);
  const data = {
    notifications: {
      total: sum(counts.notifications),
      unread: sum(counts.notifications.filter(({ isRead }) => !isRead)),
      byType: sumsBy(counts.notifications, ({ type }) => type),
    },
    events: { total: sum(counts.events), byType: sumsBy(counts.events, ({ type }) => type) },
    deliveryAttempts: { total: sum(counts.deliveryAttempts), byStatus: byStatus(counts.deliveryAttempts) },
    recent: counts.recent.map(notificationView),
  };
  return { status: 200, data };
}

function byStatus(counts: SupportCounts['deliveryAttempts']): Record<string, number> {
  const none = Object.fromEntries(DELIVERY_STATUSES.map((status) => [status, 0]));
  return { ...none, ...sumsBy(counts, ({ status }) => status) };
}

function sum(counts: readonly { count: number }[]): number {
  return counts.reduce((total, { count }) => total + count, 0);
}

function sumsBy<Count extends { count: number }>(
  counts: readonly Count[],
  nameOf: (count: Count) => string,
): Record<string, number> {
  return Object.fromEntries([...Map.groupBy(counts, nameOf)].map(([name, same]) => [name, sum(same)]));
}
