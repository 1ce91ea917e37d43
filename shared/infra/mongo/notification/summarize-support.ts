import type { Document } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import type { DeliveryStatus } from '#shared/notification/delivery.ts';
import type { Notification } from '#shared/notification/notification.ts';
import { deliveryAttempts, notificationEvents, notifications } from './collections.ts';
import { type PlaceFilter, readConsistently, readOf, selectionOf } from './inbox.ts';

export interface SupportCounts {
  notifications: { type: string; isRead: boolean; count: number }[];
  events: { type: string; count: number }[];
  deliveryAttempts: { status: DeliveryStatus; count: number }[];
  /** The newest notifications. */
  recent: Notification[];
}

/**
 * Counts notifications, events and delivery attempts about support, each from an index that contains nothing else. Returns the
 * `recent` newest notifications as well.
 */
export async function summarizeSupport(mongo: Mongo, recent: number): Promise<SupportCounts> {
  const options = { hint: 'support_summary', maxTimeMS: QUERY_LIMIT_MS };
  const [seen, events, attempts] = await Promise.all([
    readConsistently(mongo, (place) => countNotifications(mongo, place, recent)),
    notificationEvents(mongo)
      .aggregate<SupportCounts['events'][number]>(grouped({ isSupport: true }, ['type']), options)
      .toArray(),
    deliveryAttempts(mongo)
      .aggregate<SupportCounts['deliveryAttempts'][number]>(grouped({ isSupport: true }, ['status']), options)
      .toArray(),
  ]);
  return { ...seen, events, deliveryAttempts: attempts };
}

async function countNotifications(mongo: Mongo, place: PlaceFilter, recent: number) {
  const { filter, ...index } = selectionOf({ userId: null, organizationId: null, filter: 'SUPPORT', q: null }, place);
  const [counts, rows] = await Promise.all([
    notifications(mongo)
      .aggregate<SupportCounts['notifications'][number]>(grouped(filter, ['type', 'isRead']), {
        hint: 'support_summary',
        ...readOf(place),
      })
      .toArray(),
    notifications(mongo)
      .find(filter, { ...index, sort: { createdAt: -1, _id: -1 }, limit: recent, ...readOf(place) })
      .toArray(),
  ]);
  return { notifications: counts, recent: rows };
}

/** Returns the pipeline that counts rows with the same values in these fields. */
function grouped(match: Document, fields: readonly string[]): Document[] {
  return [
    { $match: match },
    { $group: { _id: Object.fromEntries(fields.map((name) => [name, `$${name}`])), count: { $sum: 1 } } },
    { $project: { _id: 0, count: 1, ...Object.fromEntries(fields.map((name) => [name, `$_id.${name}`])) } },
  ];
}
