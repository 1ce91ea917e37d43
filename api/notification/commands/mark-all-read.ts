import { callerOf } from '#api/notification/caller.ts';
import type { NotificationDeps } from '#api/notification/deps.ts';
import type { Call, Reply } from '#api/route.ts';
import { markAllRead } from '#infra/mongo/notification/inbox-changes.ts';

/** Marks the caller's own notifications read, an ADMIN's too. */
export async function markEverythingRead(deps: NotificationDeps, call: Call): Promise<Reply> {
  const { id } = callerOf(call.identity);
  const updated = await markAllRead(deps.mongo, id, call.signal);
  deps.wake([id]);
  return { status: 200, data: { updated } };
}
