import type { FaultDetail } from '#shared/kernel/errors.ts';
import { instantOf } from '#shared/kernel/time.ts';

/** What a user wants to be told. `_id` is the user's id; no row = everything allowed, nothing muted. */
export interface Preferences {
  _id: string;
  /** An explicit false disables a type; every other type is allowed. */
  enabledTypes: Readonly<Record<string, boolean>>;
  mutedUntil: Date | null;
  updatedAt: Date | null;
}

export const MAX_ENABLED_TYPES = 500;
const TYPE_NAME = /^[A-Z][A-Z0-9_]{0,63}$/;

export type SuppressionReason = 'TYPE_DISABLED' | 'MUTED';

export interface Suppression {
  userId: string;
  reason: SuppressionReason;
}

/** The key that a preference is looked up by: the event's, else the notification's own, else its type. */
export function preferenceKey(
  input: { type: string; preferenceType?: string | null },
  eventPreferenceType: string | null = null,
): string {
  return eventPreferenceType ?? input.preferenceType ?? input.type;
}

/** Why this user is not to be told now; null = tell. At the very instant of `mutedUntil` the mute is over. Pure. */
export function suppressionOf(
  preferences: Pick<Preferences, 'enabledTypes' | 'mutedUntil'> | null,
  key: string,
  now: Date,
): SuppressionReason | null {
  if (preferences === null) return null;
  if (Object.hasOwn(preferences.enabledTypes, key) && preferences.enabledTypes[key] === false) return 'TYPE_DISABLED';
  if (preferences.mutedUntil !== null && preferences.mutedUntil.getTime() > now.getTime()) return 'MUTED';
  return null;
}

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
