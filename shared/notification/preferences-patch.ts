import type { FaultDetail } from '#shared/kernel/errors.ts';
import { instantOf } from '#shared/kernel/time.ts';
import { MAX_ENABLED_TYPES, TYPE_NAME } from './preferences.ts';

/** Changes of preferences; an absent field stays as it is. */
export interface PreferencesChange {
  /** Merged into what is stored, type by type. */
  enabledTypes: Readonly<Record<string, boolean>>;
  /** null ends the mute; undefined leaves it. */
  mutedUntil: Date | null | undefined;
}

/** What of a patch is a fault beside its shape: names that are no types, values that are not boolean, too many at once. */
export function preferencesFaults(body: unknown): FaultDetail[] {
  const types = typeof body === 'object' && body !== null && 'enabledTypes' in body ? body.enabledTypes : undefined;
  if (typeof types !== 'object' || types === null || Array.isArray(types)) return [];
  const entries = Object.entries(types);
  if (entries.length > MAX_ENABLED_TYPES) return [TOO_MANY_TYPES];
  return entries.flatMap(([name, value]) => {
    const path = `/enabledTypes/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`;
    if (!TYPE_NAME.test(name)) return [{ path, message: `must be a type: ${TYPE_NAME.source}` }];
    return typeof value === 'boolean' ? [] : [{ path, message: 'must be boolean' }];
  });
}

/** Also where a patch that is small enough would make the stored map too large. */
export const TOO_MANY_TYPES: FaultDetail = {
  path: '/enabledTypes',
  message: `must leave at most ${MAX_ENABLED_TYPES} types`,
};

/** A patch without faults as what is to be changed. */
export function readPreferencesPatch(body: {
  enabledTypes?: Record<string, unknown>;
  mutedUntil?: string | null;
}): PreferencesChange {
  return {
    enabledTypes: (body.enabledTypes ?? {}) as Record<string, boolean>,
    mutedUntil: body.mutedUntil === undefined ? undefined : instantOf(body.mutedUntil),
  };
}

/** As `data` of a reply; a user without a row has set nothing. */
export function preferencesView(
  stored: { enabledTypes: Readonly<Record<string, boolean>>; mutedUntil: Date | null; updatedAt: Date | null } | null,
) {
  return {
    enabledTypes: stored?.enabledTypes ?? {},
    mutedUntil: stored?.mutedUntil?.toISOString() ?? null,
    updatedAt: stored?.updatedAt?.toISOString() ?? null,
  };
}
