import type { NotificationReply, UpdatedReply } from '#shared/generated/notification.ts';
import { dataOf } from './gateway.ts';
import { countFaults, type Inbox, type InboxContents, readInbox } from './inbox.ts';
import type { DemoDeps } from './sitting.ts';

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
