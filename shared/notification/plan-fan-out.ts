import { type EventInput, sourceEventRef } from './event.ts';
import { MAX_AT_ONCE } from './fan-out.ts';
import { type Notification, type NotificationInput, newNotification } from './notification.ts';
import { type Preferences, preferenceKey, type Suppression, suppressionOf } from './preferences.ts';

/** What a producer wants made, and what is known of its recipients. */
export interface FanOutRequest {
  notifications: readonly NotificationInput[];
  /** null: a batch that belongs to no event. */
  event: EventInput | null;
  /** From the caller's header: used where neither row nor event says one. */
  organizationId: string | null;
  /** Of the recipients that have set any, by user id. */
  preferences: ReadonlyMap<string, Pick<Preferences, 'enabledTypes' | 'mutedUntil'>>;
}

export interface FanOutPlan {
  rows: Notification[];
  /** One for each notification that is not made, in their order. */
  suppressed: Suppression[];
  /** More rows than one transaction should hold: they are staged first, out of sight. */
  staged: boolean;
}

/** Which rows a fan-out makes and whom it leaves out, and why. Pure: ids and time come from the caller. */
export function planFanOut(
  request: FanOutRequest,
  made: { fanOutId: string; now: Date; newId: () => string; rowsAtOnce?: number },
): FanOutPlan {
  const { event, preferences } = request;
  const judged = request.notifications.map((input) => {
    const key = preferenceKey(input, event?.preferenceType ?? null);
    return { input, reason: suppressionOf(preferences.get(input.userId) ?? null, key, made.now) };
  });
  const approved = judged.filter(({ reason }) => reason === null);
  const staged = approved.length > (made.rowsAtOnce ?? MAX_AT_ONCE);
  const origin = {
    fanOutId: made.fanOutId,
    sourceEventRef: event === null ? null : sourceEventRef(event),
    organizationId: event?.organizationId ?? request.organizationId,
  };
  return {
    staged,
    rows: approved.map(({ input }, ordinal) =>
      newNotification(input, {
        id: made.newId(),
        now: made.now,
        place: staged ? made.fanOutId : 'INBOX',
        ordinal,
        origin,
      }),
    ),
    suppressed: judged.flatMap(({ input, reason }) => (reason === null ? [] : [{ userId: input.userId, reason }])),
  };
}
