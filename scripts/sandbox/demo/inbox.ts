import { setTimeout as delay } from 'node:timers/promises';
import { countRequests, type Gateway } from '#scripts/sandbox/gateway.ts';
import { mathsExam } from '#scripts/sandbox/school/paper.ts';
import type { Notification } from '../../../clients/typescript/src/index.ts';
import { type DemoDeps, differences, type Sitting } from './sit-exam.ts';

/** The inbox of a student or parent, and the notice that this run must deliver to it. */
export interface Inbox {
  owner: { id: string; role: 'STUDENT' | 'PARENT' };
  /** The attempt whose result the notice announces. */
  attemptId: string;
}

const LIMIT = 100;
const READINGS = 5;
const RETRY_MS = 200;

/** Returns the inboxes of the student of a sitting, or of the parents on record. */
export function inboxesOf(role: Inbox['owner']['role'], { attemptId, student }: Sitting): Inbox[] {
  const ids = role === 'STUDENT' ? [student.id] : student.parentIds;
  return ids.map((id) => ({ owner: { id, role }, attemptId }));
}

/** Reads one page, newest first, with the counts of the whole inbox. */
export function readPage(gateway: Gateway, { owner }: Inbox, page: number) {
  const { listNotifications, listParentAlerts } = gateway.client('inbox');
  return (owner.role === 'PARENT' ? listParentAlerts : listNotifications)({ as: owner, query: { limit: LIMIT, page } });
}

/**
 * Returns all rows of an inbox, newest first. A notification that arrives between two pages, or between rows and counts, makes them differ.
 * The inbox is then read again, up to five times; a difference in the last reading is a fault.
 */
async function readInbox(gateway: Gateway, inbox: Inbox, complain: (fault: string) => void): Promise<Notification[]> {
  for (let reading = 1; ; reading++) {
    const { items: rows, total, totalPages, unreadCount } = await readPage(gateway, inbox, 1);
    for (let page = 2; page <= totalPages; page++) rows.push(...(await readPage(gateway, inbox, page)).items);
    const counted = { 'number of notifications': total, 'number of unread ones': unreadCount };
    const faults = differences("the inbox's", counted, {
      'number of notifications': rows.length,
      'number of unread ones': unreadOf(rows).length,
    });
    if (faults.length > 0 && reading < READINGS) await delay(RETRY_MS);
    else {
      faults.forEach(complain);
      return rows;
    }
  }
}

function unreadOf(rows: readonly Notification[]): string[] {
  return rows.filter((row) => !row.isRead).map((row) => row.id);
}

/**
 * Checks that the inbox has exactly one notice of this run: about the owner's attempt, with the agreed text, unread, and with correct
 * counts. `attempts` are all attempts of this run; notices of earlier demos are ignored. Returns whether the notice is there.
 */
export async function verifyInbox(deps: DemoDeps, inbox: Inbox, attempts: ReadonlySet<string>): Promise<boolean> {
  const complain = complaintsOf(deps, inbox);
  const rows = await readInbox(deps.gateway, inbox, complain);
  if (rows.some((row) => row.userId !== inbox.owner.id)) complain("the inbox shows another user's rows");
  const noticed = rows.filter((row) => row.entityId !== null && attempts.has(row.entityId));
  const own = noticed.filter((row) => row.entityId === inbox.attemptId);
  if (own.length !== noticed.length) complain("has a notice of another student's result");
  if (own.length !== 1) complain(`has ${own.length} notices, expected one`);
  for (const row of own) differences("the notice's", row, noticeOf(inbox, deps.examId)).forEach(complain);
  return own.length > 0;
}

function complaintsOf(deps: DemoDeps, { owner }: Inbox) {
  return (fault: string) => deps.complain(`${owner.id}: ${fault}`);
}

function noticeOf({ owner, attemptId }: Inbox, examId: string): Partial<Notification> {
  const isStudent = owner.role === 'STUDENT';
  const type = isStudent ? 'GRADE_RELEASED' : 'GRADE_RELEASED_PARENT';
  const { title, organizationId } = mathsExam(examId);
  return {
    type,
    preferenceType: type,
    entity: 'ExamAttempt',
    organizationId: organizationId ?? null,
    title: 'Kết quả bài thi đã được công bố',
    content: `Bài thi ${isStudent ? '' : 'của con bạn '}"${title}" đã có kết quả.`,
    sourceEventRef: `attempt-service:${attemptId}:notification:${type.toLowerCase()}`,
    isRead: false,
    readAt: null,
  };
}

/** Marks a student's notice of this run as read, then again, which must change nothing. Checks the counts and that no other row changed. */
export async function readNotice(deps: DemoDeps, inbox: Inbox): Promise<void> {
  const complain = complaintsOf(deps, inbox);
  const { markRead } = deps.gateway.client('read');
  const before = await readInbox(deps.gateway, inbox, complain);
  const row = before.find(({ entityId }) => entityId === inbox.attemptId);
  // A missing notice has been reported before.
  if (row === undefined) return;
  const { notification: first } = await markRead({ as: inbox.owner, notificationId: row.id });
  const { notification: again } = await markRead({ as: inbox.owner, notificationId: row.id });
  if (!first.isRead || first.readAt === null) complain('a notice stays unread after it is marked as read');
  if (again.readAt !== first.readAt) complain('the second read changed the time of the first');
  const unread = new Set(unreadOf(await readInbox(deps.gateway, inbox, complain)));
  if (unread.has(row.id)) complain('the list shows a notice as unread after it is marked as read');
  if (unreadOf(before).some((id) => id !== row.id && !unread.has(id)))
    complain('marking one notice as read changed another');
}

/** Marks the whole inbox of a student as read. No notification that was there before may stay unread. */
export async function readAllNotices(deps: DemoDeps, inbox: Inbox): Promise<void> {
  const complain = complaintsOf(deps, inbox);
  const before = unreadOf(await readInbox(deps.gateway, inbox, complain));
  const { observe, count } = countRequests();
  const { updated } = await deps.gateway
    .client('read all')
    .markAllRead({ as: inbox.owner, repeatInDoubt: true, observe });
  // If the call was repeated, an earlier request may have marked them.
  if (updated < before.length && count() === 1) complain(`read-all counts ${updated} of ${before.length}`);
  const after = unreadOf(await readInbox(deps.gateway, inbox, complain));
  if (before.some((id) => after.includes(id))) complain('read-all left notifications unread');
}
