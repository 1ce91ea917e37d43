import { findPreferences } from '../../../shared/infra/mongo/notification/find-preferences.ts';
import { preferencesView } from '../../../shared/notification/preferences-patch.ts';
import type { Call, Reply } from '../../route.ts';
import { callerOf } from '../caller.ts';
import type { NotificationDeps } from '../deps.ts';

/** What the caller has set. */
export async function showPreferences(deps: NotificationDeps, call: Call): Promise<Reply> {
  const stored = await findPreferences(deps.mongo, callerOf(call.identity).id);
  return { status: 200, data: preferencesView(stored) };
}
