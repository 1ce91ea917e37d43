import { setTimeout as delay } from 'node:timers/promises';
import type { ListReply, Notification, NotificationReply, UpdatedReply } from '#shared/generated/notification.ts';
import { type Caller, dataOf, type Gateway } from './gateway.ts';
import { mathsExam } from './paper.ts';
import type { DemoDeps, Sitting } from './sitting.ts';

/** Somebody's inbox, and what this run must bring there. */
export interface Inbox {
  owner: Caller;
  /** Where the owner reads it. */
  path: '/v1/notifications' | '/v1/parent/alerts';
  /** The attempt of whose result the owner must be told. */
  attemptId: string;
}

/** An inbox as it was found. */
interface InboxContents {
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
async function readInbox(gateway: Gateway, inbox: Omit<Inbox, 'attemptId'>): Promise<InboxContents> {
  for (let reading = 1; ; reading++) {
    const contents = await readPages(gateway, inbox);
    if (countFaults(contents).length === 0 || reading === READINGS) return contents;
    await delay(REST_MS);
  }
}

/** How the counts differ from the rows. */
function countFaults({ rows, total, unreadCount }: InboxContents): string[] {
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

/**
 * The owner was told once, in the words that are agreed, and of nobody else's attempt; the notice is unread and the counts are those of
 * the rows. `attempts`: all of this run, for earlier demos told the same people of theirs. True where the notice is there.
 */
export async function verifyInbox(deps: DemoDeps, inbox: Inbox, attempts: ReadonlySet<string>): Promise<boolean> {
  const complain = (fault: string) => deps.complain(`${inbox.owner.id}: ${fault}`);
  const contents = await readInbox(deps.gateway, inbox);
  countFaults(contents).forEach(complain);
  if (contents.rows.some((row) => row.userId !== inbox.owner.id)) complain("the inbox shows somebody else's rows");
  const told = contents.rows.filter((row) => row.entityId !== null && attempts.has(row.entityId));
  const own = told.filter((row) => row.entityId === inbox.attemptId);
  if (own.length !== told.length) complain("was told of somebody else's result");
  if (own.length !== 1) complain(`was told ${own.length} times, and should be once`);
  for (const row of own) noticeFaults(row, inbox, deps.examId).forEach(complain);
  return own.length > 0;
}

function noticeFaults(row: Notification, { owner, attemptId }: Inbox, examId: string): string[] {
  const isStudent = owner.role === 'STUDENT';
  const type = isStudent ? 'GRADE_RELEASED' : 'GRADE_RELEASED_PARENT';
  const source = isStudent ? 'grade_released' : 'grade_released_parent';
  const { title, organizationId } = mathsExam(examId);
  const wanted: Partial<Notification> = {
    type,
    preferenceType: type,
    entity: 'ExamAttempt',
    organizationId: organizationId ?? null,
    title: 'Kết quả bài thi đã được công bố',
    content: `Bài thi ${isStudent ? '' : 'của con bạn '}"${title}" đã có kết quả.`,
    sourceEventRef: `attempt-service:${attemptId}:notification:${source}`,
    isRead: false,
    readAt: null,
  };
  return Object.entries(wanted)
    .filter(([field, value]) => row[field as keyof Notification] !== value)
    .map(([field, value]) => `the notice's ${field} is ${row[field as keyof Notification]}, and should be ${value}`);
}

/** The owner reads this run's notice, then once more, which must change nothing; the counts follow. */
export async function readNotice(deps: DemoDeps, inbox: Inbox): Promise<void> {
  const complain = (fault: string) => deps.complain(`${inbox.owner.id}: ${fault}`);
  const before = await readInbox(deps.gateway, inbox);
  const row = before.rows.find(({ entityId }) => entityId === inbox.attemptId);
  // Whoever was not told has been complained of already.
  if (row === undefined) return;
  const first = await markRead(deps, inbox, row.id);
  const again = await markRead(deps, inbox, row.id);
  if (!first.isRead || first.readAt === null) complain('a notice that was read is still unread');
  if (again.readAt !== first.readAt) complain('reading twice changed when it was read');
  const after = await readInbox(deps.gateway, inbox);
  countFaults(after).forEach(complain);
  const others = unreadOf(before).filter((id) => id !== row.id);
  if (isUnread(after, [row.id])) complain('a notice that was read is unread in the list');
  if (others.some((id) => !isUnread(after, [id]))) complain('reading one notice read another');
}

/** The owner reads everything; nothing that was there stays unread. */
export async function readAllNotices(deps: DemoDeps, inbox: Inbox): Promise<void> {
  const complain = (fault: string) => deps.complain(`${inbox.owner.id}: ${fault}`);
  const unread = unreadOf(await readInbox(deps.gateway, inbox));
  const reply = await deps.gateway.send({
    name: 'read all',
    method: 'POST',
    path: `${inbox.path}/read-all`,
    caller: inbox.owner,
  });
  const { updated } = dataOf<UpdatedReply>('read all', reply, 200);
  // Sent again because no reply came: the first sending may have read them.
  if (updated < unread.length && reply.sentTimes === 1) complain(`read all told ${updated} of ${unread.length}`);
  const after = await readInbox(deps.gateway, inbox);
  countFaults(after).forEach(complain);
  if (isUnread(after, unread)) complain('read all left something unread');
}

async function markRead(deps: DemoDeps, { owner, path }: Inbox, id: string) {
  const reply = await deps.gateway.send({
    name: 'read',
    method: 'POST',
    path: `${path}/${id}/read`,
    caller: owner,
  });
  return dataOf<NotificationReply>('read', reply, 200).notification;
}

function unreadOf({ rows }: InboxContents): string[] {
  return rows.filter((row) => !row.isRead).map((row) => row.id);
}

function isUnread(contents: InboxContents, ids: readonly string[]): boolean {
  return unreadOf(contents).some((id) => ids.includes(id));
}
