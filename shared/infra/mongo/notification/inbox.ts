import type { Filter } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { LOOK_MS } from '#shared/notification/fan-out.ts';
import { literalPattern, type Notification, type Place } from '#shared/notification/notification.ts';
import { fanOuts, type NotificationRow, notifications } from './collections.ts';

export type ListFilter = 'ALL' | 'UNREAD' | 'READ' | 'SUPPORT';

/** Which notifications a list shows; null does not narrow. */
export interface Wanted {
  /** null: of all users. */
  userId: string | null;
  organizationId: string | null;
  filter: ListFilter;
  /** Literal text in title or content, whatever its case. */
  q: string | null;
}

export interface Page {
  /** From 1. */
  page: number;
  limit: number;
}

interface ListedNotifications {
  /** The wanted page, newest first. */
  rows: Notification[];
  /** Of all pages. */
  total: number;
  /** Of the same users, whatever else was wanted. */
  unread: number;
}

/** A page of an inbox with its counts. A search that takes too long is an outage: its text is compared row by row. */
export function listNotifications(mongo: Mongo, wanted: Wanted, page: Page): Promise<ListedNotifications> {
  return look(mongo, (place) => readPage(mongo, wanted, page, place));
}

async function readPage(
  mongo: Mongo,
  wanted: Wanted,
  { page, limit }: Page,
  place: PlaceFilter,
): Promise<ListedNotifications> {
  const { filter, ...index } = selectionOf(wanted, place);
  const { filter: unreadFilter, ...unreadIndex } = unreadSelection(wanted.userId, place);
  const isUnread = wanted.filter === 'UNREAD' && wanted.organizationId === null && wanted.q === null;
  const [rows, unreadCount, total] = await Promise.all([
    notifications(mongo)
      .find(filter, { ...LOOK_OPTIONS, ...index, sort: { createdAt: -1, _id: -1 }, skip: (page - 1) * limit, limit })
      .toArray(),
    notifications(mongo).countDocuments(unreadFilter, { ...LOOK_OPTIONS, ...unreadIndex }),
    isUnread ? null : notifications(mongo).countDocuments(filter, { ...LOOK_OPTIONS, ...index }),
  ]);
  return { rows, total: totalBeside(rows.length, { page, limit }, total ?? unreadCount), unread: unreadCount };
}

/** Page and count are two looks: between them a row may come or go. What the page itself tells of the total is what holds. */
function totalBeside(onPage: number, { page, limit }: Page, counted: number): number {
  const before = (page - 1) * limit;
  const isLast = onPage < limit && (page === 1 || onPage > 0);
  return isLast ? before + onPage : Math.max(counted, onPage === 0 ? 0 : before + onPage);
}

/** A row that somebody may see: neither deleted nor staged; null otherwise. */
export async function findNotification(mongo: Mongo, id: string): Promise<Notification | null> {
  for (let staged: string | null = null; ; ) {
    const row = await notifications(mongo).findOne({ _id: id }, { maxTimeMS: QUERY_LIMIT_MS });
    if (row === null) return null;
    if (await isVisible(mongo, row)) return row;
    // Its fan-out may have been published, settled and forgotten between the two looks: then it stands elsewhere by now.
    if (row.place === 'DELETED' || row.place === staged) return null;
    staged = row.place;
  }
}

/** Whether anybody may see a row that was found by its id. */
async function isVisible(mongo: Mongo, { place }: { place: Place }): Promise<boolean> {
  if (place === 'INBOX') return true;
  if (place === 'DELETED') return false;
  const fanOut = await fanOuts(mongo).findOne({ _id: place }, { projection: { state: 1 }, maxTimeMS: QUERY_LIMIT_MS });
  return fanOut?.state === 'PUBLISHED';
}

/** Unread notifications of one user, from an index alone. */
export function countUnread(mongo: Mongo, userId: string): Promise<number> {
  return look(mongo, (place) => {
    const { filter } = unreadSelection(userId, place);
    return notifications(mongo).countDocuments(filter, LOOK_OPTIONS);
  });
}

/** A user who was told more within the window hears of the newest; the counts tell of all. */
const MAX_RECENT = 1_000;

/** Rows of this inbox that were made after `from`, oldest first. */
export async function recentNotifications(mongo: Mongo, userId: string, from: Date): Promise<NotificationRow[]> {
  const newestFirst = await look(mongo, (place) =>
    notifications(mongo)
      .find(
        { userId, place, createdAt: { $gt: from } },
        { sort: { createdAt: -1, _id: -1 }, limit: MAX_RECENT, ...LOOK_OPTIONS },
      )
      .toArray(),
  );
  return newestFirst.reverse();
}

/** The selection in MongoDB's words. */
interface Selection {
  filter: Filter<NotificationRow>;
  /** The index that serves it newest first, where the planner has to be told. */
  hint?: string;
}

export function selectionOf(wanted: Wanted, place: PlaceFilter): Selection {
  return {
    filter: {
      ...(wanted.userId === null ? {} : { userId: wanted.userId }),
      place,
      ...(wanted.organizationId === null ? {} : { organizationId: wanted.organizationId }),
      ...CONDITIONS[wanted.filter],
      ...(wanted.q === null ? {} : textFilter(wanted.q)),
    },
    ...(wanted.userId === null ? { hint: INDEX_OF_ALL[wanted.filter] } : {}),
  };
}

const CONDITIONS = {
  ALL: {},
  UNREAD: { isRead: false },
  READ: { isRead: true },
  SUPPORT: { isSupport: true },
} as const satisfies Record<ListFilter, Filter<NotificationRow>>;

/**
 * Of all users: a planner that tries its indexes out while there are few rows may keep the wrong one for many. One user's rows are
 * found by any index that begins with the user; and both stand-ins (docs/engines.md) read the whole of an index that a hint names.
 */
const INDEX_OF_ALL = {
  ALL: 'newest',
  UNREAD: 'newest_unread',
  READ: 'newest_unread',
  SUPPORT: 'newest_support',
} as const;

function textFilter(q: string): Filter<NotificationRow> {
  const text = { $regex: literalPattern(q), $options: 'i' };
  return { $or: [{ title: text }, { content: text }] };
}

/** Unread rows of one user, or of all. */
function unreadSelection(userId: string | null, place: PlaceFilter): Selection {
  return selectionOf({ userId, organizationId: null, filter: 'UNREAD', q: null }, place);
}

/** What a reader filters `place` by. */
export type PlaceFilter = 'INBOX' | { $in: string[] };

/**
 * Of every command that reads rows in more than one place: all of it as one instant. Another read lets writers in between its
 * steps, and would meet a row that moves to its inbox just then twice, or not at all.
 */
export const LOOK_OPTIONS = { readConcern: { level: 'snapshot' }, maxTimeMS: QUERY_LIMIT_MS } as const;

const LOOK_ROUNDS = 3;

/**
 * Reads rows as one instant would show them: of every fan-out all rows or none. `read` may be called twice: once while the
 * published fan-outs are being looked for, which is nearly always in vain, and again with those that were found.
 *
 * Rows move to `INBOX` no sooner than REST_MS after their fan-out was published, and it stays findable for REST_MS after the last
 * one moved (`shared/notification/fan-out.ts`). So two looks that lie less than that apart, in either order, agree about every row that could
 * be on the move. A process that was paused in between looks again.
 */
export async function look<Result>(mongo: Mongo, read: (place: PlaceFilter) => Promise<Result>): Promise<Result> {
  for (let round = 1; ; round++) {
    const began = performance.now();
    const [published, settled] = await Promise.all([publishedFanOuts(mongo), read('INBOX')]);
    const result = published.length === 0 ? settled : await read({ $in: ['INBOX', ...published] });
    if (performance.now() - began < LOOK_MS) return result;
    if (round === LOOK_ROUNDS) throw new Error('looks at an inbox took too long to belong together');
  }
}

/** The same for a write over many rows, which must know first. */
export async function visiblePlace(mongo: Mongo): Promise<PlaceFilter> {
  const published = await publishedFanOuts(mongo);
  return published.length === 0 ? 'INBOX' : { $in: ['INBOX', ...published] };
}

async function publishedFanOuts(mongo: Mongo): Promise<string[]> {
  const found = await fanOuts(mongo)
    .find({ state: 'PUBLISHED' }, { projection: { _id: 1 }, hint: 'by_state', maxTimeMS: QUERY_LIMIT_MS })
    .toArray();
  return found.map(({ _id }) => _id);
}
