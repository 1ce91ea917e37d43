/** A notification as it is stored: one recipient's own row. */
export interface Notification {
  _id: string;
  userId: string;
  organizationId: string | null;
  type: string;
  title: string;
  content: string;
  preferenceType: string | null;
  actorId: string | null;
  entity: string | null;
  entityId: string | null;
  /** JSON text: keys may begin with `$` or hold a dot. */
  data: string | null;
  /** `{sourceService}:{sourceEventId}` of the event that it came with; null without one. */
  sourceEventRef: string | null;
  place: Place;
  isRead: boolean;
  readAt: Date | null;
  /** Whether `type` begins with `SUPPORT_`; written once, so that an index can answer for it. */
  isSupport: boolean;
  /** The fan-out that made it, and its number there; null and 0 for one that was made alone. */
  fanOutId: string | null;
  ordinal: number;
  createdAt: Date;
  deletedAt: Date | null;
}

/**
 * Where a row stands, and so who sees it: `INBOX` in its owner's inbox, `DELETED` in nobody's for good, else the id of the fan-out
 * whose staged row it is: in the inbox from the write that publishes that fan-out. See `shared/notification/fan-out.ts`.
 */
export type Place = 'INBOX' | 'DELETED' | (string & {});

export function isSupportType(type: string): boolean {
  return type.startsWith('SUPPORT_');
}

/** What a producer says of one notification; a field without a value is null. */
export interface NotificationInput {
  userId: string;
  organizationId?: string | null;
  type: string;
  title: string;
  content: string;
  preferenceType?: string | null;
  actorId?: string | null;
  entity?: string | null;
  entityId?: string | null;
  data?: Record<string, unknown> | null;
}

/** What a row of a fan-out takes from what it comes with, where its own input says nothing. */
interface Origin {
  fanOutId: string | null;
  sourceEventRef: string | null;
  organizationId: string | null;
}

/** A new, unread row. `id` and `now` come from the caller; pure. */
export function newNotification(
  input: NotificationInput,
  made: { id: string; now: Date; place: Place; ordinal: number; origin: Origin },
): Notification {
  return {
    _id: made.id,
    userId: input.userId,
    organizationId: input.organizationId ?? made.origin.organizationId,
    type: input.type,
    title: input.title,
    content: input.content,
    preferenceType: input.preferenceType ?? null,
    actorId: input.actorId ?? null,
    entity: input.entity ?? null,
    entityId: input.entityId ?? null,
    data: input.data === undefined || input.data === null ? null : JSON.stringify(input.data),
    sourceEventRef: made.origin.sourceEventRef,
    place: made.place,
    isRead: false,
    readAt: null,
    isSupport: isSupportType(input.type),
    fanOutId: made.origin.fanOutId,
    ordinal: made.ordinal,
    createdAt: made.now,
    deletedAt: null,
  };
}

/** What leaves the service of a row; `place` and the fan-out are nobody's business. */
export function notificationView(row: Notification) {
  return {
    id: row._id,
    userId: row.userId,
    organizationId: row.organizationId,
    type: row.type,
    title: row.title,
    content: row.content,
    preferenceType: row.preferenceType,
    actorId: row.actorId,
    entity: row.entity,
    entityId: row.entityId,
    data: row.data === null ? null : (JSON.parse(row.data) as Record<string, unknown>),
    sourceEventRef: row.sourceEventRef,
    isRead: row.isRead,
    readAt: row.readAt?.toISOString() ?? null,
    createdAt: row.createdAt.toISOString(),
  };
}

/**
 * A regular expression, for a PCRE engine, that finds `q` literally: as it was typed, and with its accents in one code point or in
 * several. Vietnamese is written both ways, and a stored text keeps the way that its sender chose.
 */
export function literalPattern(q: string): string {
  const forms = new Set([q, q.normalize('NFC'), q.normalize('NFD')]);
  return [...forms].map(escaped).join('|');
}

/** A pattern is sent as a text that NUL ends, so that one is spelt out; `\u` escapes are not known to PCRE. */
function escaped(text: string): string {
  return text.replace(/[\\^$.|?*+()[\]{}]/g, '\\$&').replaceAll('\0', '\\x00');
}
