import type { Filter } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import type { DeliveryAttempt, DeliveryStatus } from '#shared/notification/delivery.ts';
import { deliveryAttempts } from './collections.ts';
import type { Page } from './list-notifications.ts';

/** Which tries a list shows; null does not narrow. */
export interface WantedAttempts {
  /** null: of all users. */
  userId: string | null;
  notificationId: string | null;
  organizationId: string | null;
  channel: string | null;
  provider: string | null;
  status: DeliveryStatus | null;
  /** Both inclusive, over `createdAt`. */
  from: Date | null;
  to: Date | null;
}

/** A page of tries, newest first, and how many there are in all pages. */
export async function listDeliveryAttempts(
  mongo: Mongo,
  wanted: WantedAttempts,
  { page, limit }: Page,
): Promise<{ rows: DeliveryAttempt[]; total: number }> {
  const filter = filterOf(wanted);
  const isOfAll = wanted.userId === null && wanted.notificationId === null;
  const bounds = { ...(isOfAll ? { hint: 'newest' } : {}), maxTimeMS: QUERY_LIMIT_MS };
  const [rows, total] = await Promise.all([
    deliveryAttempts(mongo)
      .find(filter, { ...bounds, sort: { createdAt: -1, _id: -1 }, skip: (page - 1) * limit, limit })
      .toArray(),
    deliveryAttempts(mongo).countDocuments(filter, bounds),
  ]);
  return { rows, total };
}

function filterOf({ from, to, ...equal }: WantedAttempts): Filter<DeliveryAttempt> {
  const created = {
    // Times are whole milliseconds. Some servers that speak MongoDB's protocol leave the bound of a $gte out, where the index runs downwards.
    ...(from === null ? {} : { $gt: new Date(from.getTime() - 1) }),
    ...(to === null ? {} : { $lte: to }),
  };
  return {
    ...Object.fromEntries(Object.entries(equal).filter(([, value]) => value !== null)),
    ...(from === null && to === null ? {} : { createdAt: created }),
  };
}
