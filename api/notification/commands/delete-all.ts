import { callerOf } from '#api/notification/caller.ts';
import type { NotificationDeps } from '#api/notification/deps.ts';
import type { Call, Reply } from '#api/route.ts';
import { deleteAll } from '#infra/mongo/notification/inbox-changes.ts';

/** Deletes the caller's own notifications, an ADMIN's too. */
export async function deleteEverything(deps: NotificationDeps, call: Call): Promise<Reply> {
  const { id } = callerOf(call.identity);
  const deleted = await deleteAll(deps.mongo, id, call.signal);
  deps.wake([id]);
  return { status: 200, data: { deleted } };
}
