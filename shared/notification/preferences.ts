/** What a user wants to be told. `_id` is the user's id; no row = everything allowed, nothing muted. */
export interface Preferences {
  _id: string;
  /** An explicit false disables a type; every other type is allowed. */
  enabledTypes: Readonly<Record<string, boolean>>;
  mutedUntil: Date | null;
  updatedAt: Date | null;
}

export const MAX_ENABLED_TYPES = 500;
export const TYPE_NAME = /^[A-Z][A-Z0-9_]{0,63}$/;

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
