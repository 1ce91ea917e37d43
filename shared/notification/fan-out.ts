import { MINUTE, SECOND } from '#shared/kernel/time.ts';
import { type EventInput, sourceEventRef } from './event.ts';
import { type Notification, type NotificationInput, newNotification } from './notification.ts';
import { type Preferences, preferenceKey, type Suppression, suppressionOf } from './preferences.ts';

/**
 * A fan-out with more rows than one transaction should hold. Its rows are staged in chunks; no reader sees them, as their `place` is
 * the fan-out's id. One transaction publishes: the event and PUBLISHED are there or not, and with them every row for every reader.
 * Afterwards the rows are settled: moved to `INBOX` one by one.
 *
 * Readers take as inbox `INBOX` and every published fan-out that they find. They look for those and for rows at the same time, so
 * rows must not move while a reader may hold an older list: they are moved only REST_MS after publishing, and the fan-out stays in
 * the list for REST_MS after the last was moved. A reader whose two looks lie further apart than LOOK_MS looks again.
 */
export interface FanOut {
  _id: string;
  state: FanOutState;
  /** `sourceEventRef` of its event: who brings the same one meanwhile waits for this instead of staging it too. */
  source: string | null;
  /** Rows that it will have, and those staged so far. */
  rows: number;
  staged: number;
  /** Staging must have ended by then, or somebody may sweep the rows away (MongoDB's clock). */
  stageBy: Date;
  publishedAt: Date | null;
}

/** ABANDONED: nobody may stage or publish any more, its rows are being taken away. */
type FanOutState = 'STAGING' | 'PUBLISHED' | 'ABANDONED';

/** Rows that one transaction makes: beyond it a fan-out is staged. */
export const MAX_AT_ONCE = 1_000;

/** From the first chunk to the publication. A row is visible within this of its `createdAt`, or never. */
export const STAGE_WITHIN_MS = 90 * SECOND;
export const REST_MS = 1 * MINUTE;
/** Well within REST_MS, and longer than any two queries of a healthy reader take. */
export const LOOK_MS = 20 * SECOND;

/** What a producer wants made, and what is known of its recipients. */
interface FanOutRequest {
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
