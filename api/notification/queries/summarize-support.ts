import type { NotificationDeps } from '#api/notification/deps.ts';
import type { Reply } from '#api/route.ts';
import { type SupportCounts, summarizeSupport } from '#infra/mongo/notification/summarize-support.ts';
import { DELIVERY_STATUSES } from '#shared/notification/delivery.ts';
import { notificationView } from '#shared/notification/notification.ts';

const RECENT = 20;

/** What this service knows of support, for the queues of admins. */
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
