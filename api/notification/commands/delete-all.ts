import { deleteAll } from '../../../shared/infra/mongo/notification/delete-all.ts';
import type { Call, Reply } from '../../route.ts';
import { callerOf } from '../caller.ts';
import type { NotificationDeps } from '../deps.ts';

/** Deletes the caller's own notifications, an ADMIN's too. */
export async function deleteEverything(deps: NotificationDeps, call: Call): Promise<Reply> {
  const { id } = callerOf(call.identity);
  const deleted = await deleteAll(deps.mongo, id, call.signal);
  deps.wake([id]);
  return { status: 200, data: { deleted } };
}
