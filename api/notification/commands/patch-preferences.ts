import { callerOf } from '#api/notification/caller.ts';
import type { NotificationDeps } from '#api/notification/deps.ts';
import type { Call, Reply } from '#api/route.ts';
import { patchPreferences } from '#infra/mongo/notification/preferences.ts';
import type { PreferencesPatch } from '#shared/generated/notification.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import {
  preferencesFaults,
  preferencesView,
  readPreferencesPatch,
  TOO_MANY_TYPES,
} from '#shared/notification/preferences.ts';

/** Merges changes into what the caller has set. */
export async function changePreferences(
  deps: NotificationDeps,
  call: Call<PreferencesPatch>,
): Promise<Reply | Rejection> {
  const details = preferencesFaults(call.body);
  if (details.length > 0) return { rejected: 'VALIDATION_FAILED', details };
  const change = readPreferencesPatch(call.body);
  const stored = await patchPreferences(deps.mongo, callerOf(call.identity).id, change);
  if (stored === null) return { rejected: 'VALIDATION_FAILED', details: [TOO_MANY_TYPES] };
  return { status: 200, data: preferencesView(stored) };
}
