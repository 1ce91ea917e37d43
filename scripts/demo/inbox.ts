import { setTimeout as delay } from 'node:timers/promises';
import type { ListReply, Notification } from '#shared/generated/notification.ts';
import { type Caller, dataOf, type Gateway } from './gateway.ts';
import type { Sitting } from './sitting.ts';

/** Somebody's inbox, and what this run must bring there. */
export interface Inbox {
  owner: Caller;
  /** Where the owner reads it. */
  path: '/v1/notifications' | '/v1/parent/alerts';
  /** The attempt of whose result the owner must be told. */
  attemptId: string;
}

/** An inbox as it was found. */
export interface InboxContents {
  /** All rows, newest first. */
  rows: Notification[];
  total: number;
  unreadCount: number;
}

const LIMIT = 100;
const READINGS = 5;
const REST_MS = 200;

export function studentInboxes(sittings: readonly Sitting[]): Inbox[] {
  return sittings.map(({ attemptId, student }) => ({
    owner: { id: student.id, role: 'STUDENT' },
    path: '/v1/notifications',
    attemptId,
  }));
}

/** Without parents on record nobody is told. */
export function parentInboxes(sittings: readonly Sitting[]): Inbox[] {
  return sittings.flatMap(({ attemptId, student }) =>
    student.parentIds.map((id) => ({ owner: { id, role: 'PARENT' as const }, path: '/v1/parent/alerts', attemptId })),
  );
}

/** One page, newest first, with the counts of the whole. */
export async function readPage(gateway: Gateway, { owner, path }: Omit<Inbox, 'attemptId'>, page: number) {
  const name = 'inbox';
  const reply = await gateway.send({
    name,
    method: 'GET',
    path: `${path}?limit=${LIMIT}&page=${page}`,
    caller: owner,
  });
  return dataOf<ListReply>(`${path} of ${owner.id}`, reply, 200);
}

/**
 * The whole inbox. What comes between two pages, or between the rows and their counts, may be in one and not in the other: then it is
 * read again, so that counts which differ from the rows at last are wrong.
 */
export async function readInbox(gateway: Gateway, inbox: Omit<Inbox, 'attemptId'>): Promise<InboxContents> {
  for (let reading = 1; ; reading++) {
    const contents = await readPages(gateway, inbox);
    if (countFaults(contents).length === 0 || reading === READINGS) return contents;
    await delay(REST_MS);
  }
}

/** How the counts differ from the rows. */
export function countFaults({ rows, total, unreadCount }: InboxContents): string[] {
  const unread = rows.filter((row) => !row.isRead).length;
  return [
    ...(total === rows.length ? [] : [`the inbox tells ${total} notifications and has ${rows.length}`]),
    ...(unreadCount === unread ? [] : [`the inbox tells ${unreadCount} unread and has ${unread}`]),
  ];
}

async function readPages(gateway: Gateway, inbox: Omit<Inbox, 'attemptId'>): Promise<InboxContents> {
  const first = await readPage(gateway, inbox, 1);
  const rows = [...first.items];
  for (let page = 2; page <= first.totalPages; page++) rows.push(...(await readPage(gateway, inbox, page)).items);
  return { rows, total: first.total, unreadCount: first.unreadCount };
}
