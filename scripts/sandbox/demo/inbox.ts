import { setTimeout as delay } from 'node:timers/promises';
import { countRequests, type Gateway } from '#scripts/sandbox/gateway.ts';
import { mathsExam } from '#scripts/sandbox/school/paper.ts';
import type { Notification } from '../../../clients/typescript/src/index.ts';
import { type DemoDeps, differences, type Sitting } from './sit-exam.ts';

/** The inbox of a student or parent. What became of the sitting decides which notices this run must deliver to it. */
export interface Inbox {
  owner: { id: string; role: 'STUDENT' | 'PARENT' };
  sitting: Sitting;
}

const LIMIT = 100;
const READINGS = 5;
const RETRY_MS = 200;

/** Returns the inboxes of the student of a sitting, or of the parents on record. */
export function inboxesOf(role: Inbox['owner']['role'], sitting: Sitting): Inbox[] {
  const { student } = sitting;
  const ids = role === 'STUDENT' ? [student.id] : student.parentIds;
  return ids.map((id) => ({ owner: { id, role }, sitting }));
}

/** Returns whether an inbox has as many notices of its attempt as it must get. The newest are on the first page. */
export async function isComplete({ gateway, examId }: DemoDeps, inbox: Inbox): Promise<boolean> {
  const { items } = await readPage(gateway, inbox, 1);
  const own = items.filter(({ entityId }) => entityId === inbox.sitting.attemptId);
  return own.length >= noticesOf(inbox, examId).length;
}

/** Reads one page, newest first, with the counts of the whole inbox. */
function readPage(gateway: Gateway, { owner }: Inbox, page: number) {
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
 * Checks that the inbox has exactly the notices of this run that it must get, each once: about the owner's attempt, with the agreed text,
 * unread, and with correct counts. `attempts` are all attempts of this run; notices of earlier demos are ignored. Returns whether they are
 * there.
 */
export async function verifyInbox(deps: DemoDeps, inbox: Inbox, attempts: ReadonlySet<string>): Promise<boolean> {
  const complain = complaintsOf(deps, inbox);
  const rows = await readInbox(deps.gateway, inbox, complain);
  if (rows.some((row) => row.userId !== inbox.owner.id)) complain("the inbox shows another user's rows");
  const noticed = rows.filter((row) => row.entityId !== null && attempts.has(row.entityId));
  const own = noticed.filter((row) => row.entityId === inbox.sitting.attemptId);
  if (own.length !== noticed.length) complain("has a notice of another student's result");
  const wanted = noticesOf(inbox, deps.examId);
  if (own.length !== wanted.length) complain(`has ${own.length} notices, expected ${wanted.length}`);
  for (const notice of wanted) {
    const row = own.find(({ sourceEventRef }) => sourceEventRef === notice.sourceEventRef);
    if (row === undefined) complain(`lacks the notice ${notice.sourceEventRef}`);
    else differences("the notice's", row, notice).forEach(complain);
  }
  return own.length === wanted.length;
}

function complaintsOf(deps: DemoDeps, { owner }: Inbox) {
  return (fault: string) => deps.complain(`${owner.id}: ${fault}`);
}

/** Returns the notices that an inbox must have: of the release, and of a regrade that has changed the result. */
export function noticesOf({ owner, sitting }: Inbox, examId: string): Partial<Notification>[] {
  const { attemptId, isVoid, rounds, regradeId } = sitting;
  if (isVoid) return [];
  const isStudent = owner.role === 'STUDENT';
  const type = isStudent ? 'GRADE_RELEASED' : 'GRADE_RELEASED_PARENT';
  const { title, organizationId } = mathsExam(examId);
  const notice = (name: string, heading: string, content: string): Partial<Notification> => ({
    type,
    preferenceType: type,
    entity: 'ExamAttempt',
    organizationId: organizationId ?? null,
    title: heading,
    content,
    sourceEventRef: `attempt-service:${attemptId}:notification:${name}`,
    isRead: false,
    readAt: null,
  });
  const released = `Bài thi ${isStudent ? '' : 'của con bạn '}"${title}" đã có kết quả.`;
  const round = rounds === 1 ? '' : `:${rounds}`;
  const regraded = `${isStudent ? 'regraded' : 'regraded_parent'}:${regradeId}`;
  return [
    notice(`${type.toLowerCase()}${round}`, 'Kết quả bài thi đã được công bố', released),
    ...(regradeId === null
      ? []
      : [notice(regraded, 'Kết quả bài thi đã được cập nhật', `Bài thi "${title}" có kết quả mới.`)]),
  ];
}

/** Marks a student's notice of this run as read, then again, which must change nothing. Checks the counts and that no other row changed. */
export async function readNotice(deps: DemoDeps, inbox: Inbox): Promise<void> {
  const complain = complaintsOf(deps, inbox);
  const { markRead } = deps.gateway.client('read');
  const before = await readInbox(deps.gateway, inbox, complain);
  const row = before.find(({ entityId }) => entityId === inbox.sitting.attemptId);
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
