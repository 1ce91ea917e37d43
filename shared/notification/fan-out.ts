import type { Pieces } from '#shared/kernel/pieces.ts';
import { MINUTE, SECOND } from '#shared/kernel/time.ts';
import { type EventInput, sourceEventRef } from './event.ts';
import { type Notification, type NotificationInput, newNotification } from './notification.ts';
import { type Preferences, preferenceKey, type Suppression, suppressionOf } from './preferences.ts';

/**
 * A fan-out of more than MAX_AT_ONCE rows. The rows are staged in chunks and hidden from readers, because their `place` is the
 * fan-out's id. One transaction then stores the event and the state PUBLISHED, which makes all rows visible at once.
 * Afterwards the fan-out is finished: its rows are moved to `INBOX` one by one.
 *
 * A reader's inbox is `INBOX` and every published fan-out. Readers query the list of published fan-outs and the rows at the same
 * time, so a row must not move while a reader may use an older list. Rows therefore move only READER_GRACE_MS after publication,
 * and the fan-out stays in the list until READER_GRACE_MS after the last move. A reader whose queries take longer than
 * CONSISTENT_READ_MS repeats them.
 */
export interface FanOut {
  _id: string;
  state: FanOutState;
  /** `replayKeyText` of its event. A concurrent request with the same event waits for this fan-out and stages nothing. */
  source: string | null;
  /** Total number of rows; `staged` is the number of rows staged so far. */
  rows: number;
  staged: number;
  /** Deadline of staging by MongoDB's clock. After it, the recurring sweep may delete the rows. */
  stageBy: Date;
  publishedAt: Date | null;
}

/** ABANDONED: staging and publishing are forbidden, and the rows are being deleted. */
type FanOutState = 'STAGING' | 'PUBLISHED' | 'ABANDONED';

/** Maximum number of rows in one transaction. A larger fan-out is staged. */
export const MAX_AT_ONCE = 1_000;

/** Maximum time from the first chunk to publication. A row becomes visible within this time of its `createdAt`, or never. */
export const STAGE_WITHIN_MS = 90 * SECOND;
export const READER_GRACE_MS = 1 * MINUTE;
/** Longer than the queries of a healthy reader take, and much shorter than READER_GRACE_MS. */
export const CONSISTENT_READ_MS = 20 * SECOND;

/** The notifications that a producer requests, and the preferences of their recipients. */
interface FanOutRequest {
  notifications: readonly NotificationInput[];
  /** null if the batch belongs to no event. */
  event: EventInput | null;
  /** The organization in the caller's header. It is used if neither the notification nor the event names one. */
  organizationId: string | null;
  /** By user id; a recipient without stored preferences has no entry. */
  preferences: ReadonlyMap<string, Pick<Preferences, 'enabledTypes' | 'mutedUntil'>>;
  /** Default: none. */
  erased?: ErasedIds;
}

export interface FanOutPlan {
  rows: Notification[];
  /** One entry for each notification that is not created, in the order of the request. */
  suppressed: Suppression[];
  /** Types of these notifications, in the same order. */
  suppressedTypes: string[];
  /** True if the rows exceed one transaction and must be staged before they become visible. */
  staged: boolean;
}

/**
 * Returns the rows that a fan-out creates and the suppressed recipients with reasons, row by row. Pure: the caller passes ids and time.
 */
export function* planFanOut(
  request: FanOutRequest,
  facts: { fanOutId: string; now: Date; newId: () => string; rowsAtOnce?: number },
): Pieces<FanOutPlan> {
  const { event, preferences, erased = new Set() } = request;
  const approved: NotificationInput[] = [];
  const suppressed: Suppression[] = [];
  const suppressedTypes: string[] = [];
  for (const input of request.notifications) {
    const key = preferenceKey(input, event?.preferenceType ?? null);
    const reason = concernsErased(input, erased)
      ? 'ERASED'
      : suppressionOf(preferences.get(input.userId) ?? null, key, facts.now);
    if (reason === null) {
      approved.push(input);
    } else {
      suppressed.push({ userId: input.userId, reason });
      suppressedTypes.push(input.type);
    }
    yield;
  }

  const staged = approved.length > (facts.rowsAtOnce ?? MAX_AT_ONCE);
  const origin = {
    fanOutId: facts.fanOutId,
    sourceEventRef: event === null ? null : sourceEventRef(event),
    organizationId: event?.organizationId ?? request.organizationId,
  };
  const place = staged ? facts.fanOutId : 'INBOX';
  const rows: Notification[] = [];
  for (const [ordinal, input] of approved.entries()) {
    const row = { id: facts.newId(), now: facts.now, place, ordinal, origin };
    rows.push(newNotification(withoutErasedActor(input, erased), row));
    yield;
  }
  return { staged, rows, suppressed, suppressedTypes };
}

/** Returns the plan without the rows to or about these persons, whose erasure began after it was made. */
export function planWithout(plan: FanOutPlan, erased: ErasedIds): FanOutPlan {
  if (erased.size === 0) return plan;
  const { rows, suppressed, suppressedTypes, staged } = plan;
  const { gone = [], left = [] } = Object.groupBy(rows, (row) => (concernsErased(row, erased) ? 'gone' : 'left'));
  const late = gone.map(({ userId }) => ({ userId, reason: 'ERASED' as const }));
  return {
    rows: left,
    suppressed: [...suppressed, ...late],
    suppressedTypes: [...suppressedTypes, ...gone.map(({ type }) => type)],
    staged,
  };
}

/** Ids of erased persons, among those that a request names. */
export type ErasedIds = ReadonlySet<string>;

/** The fields of a notification, or of the input of one, that may name persons. */
type NamesPersons = Pick<NotificationInput, 'userId' | 'entityId' | 'actorId'>;

/** Returns every id in a request that may belong to a person. */
export function personsIn(notifications: readonly NamesPersons[], event: EventInput | null): string[] {
  const ids = notifications.flatMap(({ userId, entityId, actorId }) => [userId, entityId, actorId]);
  const ofEvent = event === null ? [] : [event.entityId, event.actorId, ...(event.targetUserIds ?? [])];
  return [...new Set([...ids, ...ofEvent].filter((id) => id !== undefined && id !== null))];
}

/** Returns true if the notification is to an erased person or about one. */
export function concernsErased({ userId, entityId }: NamesPersons, erased: ErasedIds): boolean {
  return erased.has(userId) || isErasedId(entityId, erased);
}

/** Returns a notification, or the input of one, without an erased actor. */
export function withoutErasedActor<Named extends NamesPersons>(named: Named, erased: ErasedIds): Named {
  return isErasedId(named.actorId, erased) ? { ...named, actorId: null } : named;
}

/**
 * Returns an event without erased persons. Its replay key stays. Of an event about an erased person, only the key, the type and the
 * producer stay.
 */
export function withoutErased(event: EventInput, erased: ErasedIds): EventInput {
  const { entityId, actorId, targetUserIds } = event;
  const isAbout = isErasedId(entityId, erased);
  return {
    ...event,
    ...(isAbout ? { entityId: null, payload: null } : {}),
    ...(isErasedId(actorId, erased) ? { actorId: null } : {}),
    ...(targetUserIds == null ? {} : { targetUserIds: isAbout ? null : targetUserIds.filter((id) => !erased.has(id)) }),
  };
}

function isErasedId(id: string | null | undefined, erased: ErasedIds): boolean {
  return id !== undefined && id !== null && erased.has(id);
}
