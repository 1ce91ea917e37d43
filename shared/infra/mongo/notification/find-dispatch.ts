import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import type { DeliveryBody, Dispatch } from '#shared/notification/delivery.ts';
import type { Preferences } from '#shared/notification/preferences.ts';
import { notificationEvents, notifications, preferences } from './collections.ts';

const LIMIT = { maxTimeMS: QUERY_LIMIT_MS };

/** What a delivery is decided on. Point reads; the event only where its preference type can matter. */
export async function findDispatch(
  mongo: Mongo,
  { notificationId, userId }: Pick<DeliveryBody, 'notificationId' | 'userId'>,
): Promise<Dispatch> {
  const [notification, own] = await Promise.all([
    notifications(mongo).findOne({ _id: notificationId }, LIMIT),
    preferences(mongo).findOne({ _id: userId }, LIMIT),
  ]);
  const fanOutId = notification?.fanOutId ?? null;
  const event =
    fanOutId === null || !disablesAny(own)
      ? null
      : await notificationEvents(mongo).findOne({ _id: fanOutId }, { ...LIMIT, projection: { preferenceType: 1 } });
  return { notification, preferences: own, eventPreferenceType: event?.preferenceType ?? null };
}

function disablesAny(own: Preferences | null): boolean {
  return own !== null && Object.values(own.enabledTypes).includes(false);
}
