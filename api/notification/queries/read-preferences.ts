import { callerOf } from '#api/notification/caller.ts';
import type { NotificationDeps } from '#api/notification/deps.ts';
import type { Call, Reply } from '#api/route.ts';
import { findPreferences } from '#infra/mongo/notification/preferences.ts';
import { preferencesView } from '#shared/notification/preferences.ts';

/** What the caller has set. */
export async function showPreferences(deps: NotificationDeps, call: Call): Promise<Reply> {
  const stored = await findPreferences(deps.mongo, callerOf(call.identity).id);
  return { status: 200, data: preferencesView(stored) };
}
