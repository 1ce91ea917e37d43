import { JsonPart } from '#shared/kernel/json.ts';
import { composed, decomposed } from '#shared/kernel/text.ts';

/** A notification as it is stored: one row per recipient. */
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
  /** JSON text, because keys may begin with `$` or contain a dot. */
  data: string | null;
  /** `{sourceService}:{sourceEventId}` of its event; null if there is no event or the event has no replay key. */
  sourceEventRef: string | null;
  place: Place;
  isRead: boolean;
  readAt: Date | null;
  /** True if `type` begins with `SUPPORT_`; stored so that an index can answer for it. */
  isSupport: boolean;
  /** The fan-out that created the row; null for a row that was created alone. `ordinal` is its number there, or 0. */
  fanOutId: string | null;
  ordinal: number;
  createdAt: Date;
  deletedAt: Date | null;
}

/**
 * The place of a row decides its visibility. `INBOX`: in its owner's inbox. `DELETED`: permanently in no inbox. Any other value
 * is the id of a fan-out that staged the row; publishing that fan-out makes the row visible. See
 * `shared/notification/fan-out.ts`.
 */
export type Place = 'INBOX' | 'DELETED' | (string & {});

/** Returns whether notifications of this type are about support. */
export function isSupportType(type: string): boolean {
  return type.startsWith('SUPPORT_');
}

/** A producer's input for one notification. An absent field is stored as null. */
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

/** Fields that a row takes from its fan-out. `organizationId` is used only if the row's input names none. */
interface Origin {
  fanOutId: string | null;
  sourceEventRef: string | null;
  organizationId: string | null;
}

/** Returns a new, unread row. Pure: the caller passes `id` and `now`. */
export function newNotification(
  input: NotificationInput,
  facts: { id: string; now: Date; place: Place; ordinal: number; origin: Origin },
): Notification {
  return {
    _id: facts.id,
    userId: input.userId,
    organizationId: input.organizationId ?? facts.origin.organizationId,
    type: input.type,
    title: input.title,
    content: input.content,
    preferenceType: input.preferenceType ?? null,
    actorId: input.actorId ?? null,
    entity: input.entity ?? null,
    entityId: input.entityId ?? null,
    data: input.data === undefined || input.data === null ? null : JSON.stringify(input.data),
    sourceEventRef: facts.origin.sourceEventRef,
    place: facts.place,
    isRead: false,
    readAt: null,
    isSupport: isSupportType(input.type),
    fanOutId: facts.origin.fanOutId,
    ordinal: facts.ordinal,
    createdAt: facts.now,
    deletedAt: null,
  };
}

/** Returns the fields of a row that clients may see. `place`, the fan-out and the other internal fields are omitted. */
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
    data: row.data === null ? null : new JsonPart(row.data),
    sourceEventRef: row.sourceEventRef,
    isRead: row.isRead,
    readAt: row.readAt?.toISOString() ?? null,
    createdAt: row.createdAt.toISOString(),
  };
}

/** The marks that Unicode composes with letters of Latin, Greek and Cyrillic script. */
const MARKS = '\u0300-\u036F';
/** A character with its marks. */
const CLUSTER = new RegExp(`[^${MARKS}][${MARKS}]*|[${MARKS}]+`, 'gu');
const SPELLED = new RegExp(`^.[${MARKS}]{0,3}$`, 'su');

/** A stand-in for MongoDB refuses a pattern of more than 1,000 bytes. Only a query of many letters with two marks each has one. */
const MAX_PATTERN_BYTES = 900;

/**
 * Returns a PCRE pattern that matches `q` literally, whatever the Unicode form of either text. A stored text keeps the form that its
 * sender chose: composed, decomposed, or one mark composed and one combining, as Microsoft's keyboard for Vietnamese types it.
 */
export function literalPattern(q: string): string {
  const clusters = composed(q).match(CLUSTER) ?? [];
  const inAnyForm = anyOf([escaped(q), clusters.map((cluster) => anyOf(spellings(cluster))).join('')]);
  const isShort = Buffer.byteLength(inAnyForm) <= MAX_PATTERN_BYTES;
  const pattern = isShort ? inAnyForm : anyOf([q, composed(q), decomposed(q)].map(escaped));
  // A last letter with a further mark is another letter, as it is where the two are one character.
  return `${pattern}(?:[^${MARKS}]|$)`;
}

function anyOf(patterns: Iterable<string>): string {
  const distinct = [...new Set(patterns)];
  return distinct.length === 1 ? distinct.join('') : `(?:${distinct.join('|')})`;
}

/**
 * Returns a pattern of each text that shows this character with its marks: some marks composed, the others in any order. A letter of
 * Vietnamese has two marks; of more than three, only the composed and the decomposed form is returned.
 */
function spellings(cluster: string): string[] {
  const apart = decomposed(cluster);
  const forms = [cluster, apart];
  const [base = '', ...marks] = SPELLED.test(apart) ? apart : [];
  for (const order of orders(marks)) {
    for (let at = 0; at <= order.length; at += 1) {
      const head = composed(base + order.slice(0, at).join(''));
      forms.push(head + order.slice(at).join(''));
    }
  }
  return forms.filter((form) => form !== '').map(escaped);
}

/** Returns every order of a few marks. */
function orders(marks: readonly string[]): string[][] {
  if (marks.length === 0) return [[]];
  return marks.flatMap((mark, at) => orders(marks.toSpliced(at, 1)).map((others) => [mark, ...others]));
}

/** Escapes a text for PCRE. A pattern is sent as a NUL-terminated text, so NUL becomes `\x00`; PCRE has no `\u` escapes. */
function escaped(text: string): string {
  return text.replace(/[\\^$.|?*+()[\]{}]/g, '\\$&').replaceAll('\0', '\\x00');
}
