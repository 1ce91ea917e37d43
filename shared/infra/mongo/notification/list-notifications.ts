import type { Mongo } from '#infra/mongo/connect.ts';
import type { Notification } from '#shared/notification/notification.ts';
import { notifications } from './collections.ts';
import { selectionOf, unreadSelection, type Wanted } from './inbox-filter.ts';
import { LOOK_OPTIONS, look, type PlaceFilter } from './look.ts';

export interface Page {
  /** From 1. */
  page: number;
  limit: number;
}

export interface ListedNotifications {
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
