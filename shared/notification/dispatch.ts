import type { Notification } from './notification.ts';
import { type Preferences, preferenceKey, type SuppressionReason, suppressionOf } from './preferences.ts';

/** What a delivery is decided on, as it stands at that moment. */
export interface Dispatch {
  /** null: there is no such row. */
  notification: Notification | null;
  preferences: Preferences | null;
  /** Of the event that it came with; null where that names none. */
  eventPreferenceType: string | null;
}

export type DispatchRefusal = 'GONE' | 'DELETED' | SuppressionReason;

/** Why this notification is not to be delivered any more, ever; or the notification. Pure. */
export function judgeDispatch(dispatch: Dispatch, now: Date): Notification | DispatchRefusal {
  const { notification, preferences, eventPreferenceType } = dispatch;
  if (notification === null) return 'GONE';
  if (notification.place === 'DELETED') return 'DELETED';
  return suppressionOf(preferences, preferenceKey(notification, eventPreferenceType), now) ?? notification;
}
