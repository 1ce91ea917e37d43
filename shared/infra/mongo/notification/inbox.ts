import type { Filter } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { CONSISTENT_READ_MS } from '#shared/notification/fan-out.ts';
import { literalPattern, type Notification, type Place } from '#shared/notification/notification.ts';
import { fanOuts, type NotificationKey, type NotificationRow, notifications } from './collections.ts';

export type ListFilter = 'ALL' | 'UNREAD' | 'READ' | 'SUPPORT';

/** Filter of a list of notifications; null does not narrow. */
export interface WantedNotifications {
  /** null: all users. */
  userId: string | null;
  organizationId: string | null;
  filter: ListFilter;
  /** Literal text in title or content, upper or lower case. */
  q: string | null;
}

export interface Page {
  /** Number of the page, from 1. */
  page: number;
  limit: number;
  /** The page has the rows after this one alone. Default: it begins with the newest row. */
  after?: Position;
}

/** Place of a row in the order of a list. */
export type Position = Pick<Notification, '_id' | 'createdAt'>;

interface ListedNotifications {
  /** The wanted page, newest first. */
  rows: Notification[];
  /** Number of rows on all pages. */
  total: number;
  /** Number of unread rows of the same users, whatever the other conditions are. */
  unread: number;
}

/**
 * Returns a page of an inbox with its counts. A search compares its text row by row; one that takes too long fails as an outage.
 */
export function listNotifications(mongo: Mongo, wanted: WantedNotifications, page: Page): Promise<ListedNotifications> {
  return readConsistently(mongo, (place) => readPage(mongo, wanted, page, place));
}

async function readPage(
  mongo: Mongo,
  wanted: WantedNotifications,
  { page, limit, after }: Page,
  place: PlaceFilter,
): Promise<ListedNotifications> {
  const { filter, ...index } = selectionOf(wanted, place);
  const { filter: unreadFilter, ...unreadIndex } = unreadSelection(wanted.userId, place);
  const read = readOf(place);
  const isUnread = wanted.filter === 'UNREAD' && wanted.organizationId === null && wanted.q === null;
  const [rows, unreadCount, total] = await Promise.all([
    notifications(mongo)
      .find(after === undefined ? filter : olderThan(after, filter), {
        ...read,
        ...index,
        sort: { createdAt: -1, _id: -1 },
        skip: (page - 1) * limit,
        limit,
      })
      .toArray(),
    notifications(mongo).countDocuments(unreadFilter, { ...read, ...unreadIndex }),
    isUnread ? null : notifications(mongo).countDocuments(filter, { ...read, ...index }),
  ]);
  const counted = total ?? unreadCount;
  const known =
    after === undefined ? totalBeside(rows.length, { page, limit }, counted) : Math.max(counted, rows.length);
  return { rows, total: known, unread: unreadCount };
}

/**
 * Returns the filter of the rows after this one. The bound of `createdAt` alone bounds the index. Rows of one fan-out have one time, so that
 * their ids decide.
 */
function olderThan({ _id, createdAt }: Position, filter: Filter<NotificationRow>): Filter<NotificationRow> {
  const isAfter = { $or: [{ createdAt: { $lt: createdAt } }, { _id: { $lt: _id } }] };
  return { ...filter, createdAt: { $lte: createdAt }, $and: [isAfter] };
}

/**
 * Returns the total that fits the page. Page and count are two queries, and a row may come or go between them. If the page itself
 * proves a bound of the total, that bound wins.
 */
function totalBeside(onPage: number, { page, limit }: Page, counted: number): number {
  const before = (page - 1) * limit;
  const isLast = onPage < limit && (page === 1 || onPage > 0);
  return isLast ? before + onPage : Math.max(counted, onPage === 0 ? 0 : before + onPage);
}

/** Returns a row of this user if it is visible, that is, neither deleted nor staged; otherwise null. */
export function findNotification(mongo: Mongo, { _id, userId }: NotificationKey): Promise<Notification | null> {
  return findVisible(mongo, { _id, userId });
}

/** Returns a row of any user if it is visible; otherwise null. Every shard searches for it, so call it only if the user is unknown. */
export function findNotificationOfAnyUser(mongo: Mongo, _id: string): Promise<Notification | null> {
  return findVisible(mongo, { _id });
}

/**
 * Returns the place in the lists of this user, or of all users, of a row that is or was visible; otherwise null. A deleted row keeps its
 * place, so that a reader who has seen it can go on from there.
 */
export async function findPosition(
  mongo: Mongo,
  { _id, userId }: { _id: string; userId: string | null },
): Promise<Position | null> {
  const row = await findVisible(mongo, userId === null ? { _id } : { _id, userId }, { orDeleted: true });
  return row === null ? null : { _id, createdAt: row.createdAt };
}

async function findVisible(
  mongo: Mongo,
  one: NotificationKey | Pick<NotificationKey, '_id'>,
  { orDeleted }: { orDeleted: boolean } = { orDeleted: false },
): Promise<Notification | null> {
  for (let staged: string | null = null; ; ) {
    const row = await notifications(mongo).findOne(one, { maxTimeMS: QUERY_LIMIT_MS });
    if (row === null) return null;
    if ((orDeleted && row.place === 'DELETED') || (await isVisible(mongo, row))) return row;
    // Between the two queries its fan-out may have been published, finished and deleted. The row is then in another place, so
    // read it again.
    if (row.place === 'DELETED' || row.place === staged) return null;
    staged = row.place;
  }
}

/** Returns true if a row that was found by its id is visible. */
async function isVisible(mongo: Mongo, { place }: { place: Place }): Promise<boolean> {
  if (place === 'INBOX') return true;
  if (place === 'DELETED') return false;
  const fanOut = await fanOuts(mongo).findOne({ _id: place }, { projection: { state: 1 }, maxTimeMS: QUERY_LIMIT_MS });
  return fanOut?.state === 'PUBLISHED';
}

/** Returns the number of unread notifications of one user, from an index alone. */
export function countUnread(mongo: Mongo, userId: string): Promise<number> {
  return readConsistently(mongo, (place) => {
    const { filter } = unreadSelection(userId, place);
    return notifications(mongo).countDocuments(filter, readOf(place));
  });
}

/** Maximum number of recent rows. A user with more in the window gets the newest; the counts include all. */
const MAX_RECENT = 1_000;

/** Returns the rows of this inbox that were made after `from`, oldest first; at most the newest MAX_RECENT. */
export async function recentNotifications(mongo: Mongo, userId: string, from: Date): Promise<NotificationRow[]> {
  const newestFirst = await readConsistently(mongo, (place) =>
    notifications(mongo)
      .find(
        { userId, place, createdAt: { $gt: from } },
        { sort: { createdAt: -1, _id: -1 }, limit: MAX_RECENT, ...readOf(place) },
      )
      .toArray(),
  );
  return newestFirst.reverse();
}

/** A selection as a filter of MongoDB. */
interface Selection {
  filter: Filter<NotificationRow>;
  /** The index that serves the selection newest first, if the planner needs a hint. */
  hint?: string;
}

/** Returns the filter of a list, with the index hint if the planner needs one. */
export function selectionOf(wanted: WantedNotifications, place: PlaceFilter): Selection {
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
 * Indexes for lists over all users. A planner that compares its indexes while there are few rows may keep the wrong one for many.
 * Lists of one user have no hint: any index that begins with the user finds the rows. Both stand-ins (docs/engines.md) would read
 * the whole of an index that a hint names.
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

/** Returns the selection of the unread rows of one user, or of all users. */
function unreadSelection(userId: string | null, place: PlaceFilter): Selection {
  return selectionOf({ userId, organizationId: null, filter: 'UNREAD', q: null }, place);
}

/** The filter on `place` that selects visible rows. */
export type PlaceFilter = 'INBOX' | { $in: string[] };

/**
 * Returns the options of a command that reads the rows in these places.
 *
 * In more than one place it reads all rows as of one instant. Otherwise writers may run between its steps. A row that moves to its inbox would
 * then be read twice or not at all. In one place no row moves, and a plain read is newer: a router takes a snapshot at the latest time that it
 * has learnt. A change that the same user has just made through another router may be later.
 */
export function readOf(place: PlaceFilter): { readConcern?: { level: 'snapshot' }; maxTimeMS: number } {
  return { ...(place === 'INBOX' ? {} : { readConcern: { level: 'snapshot' } }), maxTimeMS: QUERY_LIMIT_MS };
}

const MAX_READS = 3;

/**
 * Reads rows as of one instant: all rows of a fan-out or none. `read` may be called twice: first while the published fan-outs are
 * queried, and again if there are any, which is rare.
 *
 * Rows move to `INBOX` no sooner than READER_GRACE_MS after their fan-out was published. The fan-out stays findable for READER_GRACE_MS after the
 * last row moved (`shared/notification/fan-out.ts`). So two queries less than that apart, in either order, agree about every row
 * that could be moving. A process that was paused between them repeats both. Throws if that happens in MAX_READS passes.
 */
export async function readConsistently<Result>(
  mongo: Mongo,
  read: (place: PlaceFilter) => Promise<Result>,
): Promise<Result> {
  for (let pass = 1; ; pass++) {
    const began = performance.now();
    const [published, visible] = await Promise.all([publishedFanOuts(mongo), read('INBOX')]);
    const result = published.length === 0 ? visible : await read({ $in: ['INBOX', ...published] });
    if (performance.now() - began < CONSISTENT_READ_MS) return result;
    if (pass === MAX_READS) throw new Error('the reads of an inbox took too long to be consistent');
  }
}

/** Returns the filter of visible rows for a write over many rows, which must know it beforehand. */
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
