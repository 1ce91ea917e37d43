import { type FaultDetail, unknownTo } from '#shared/kernel/errors.ts';
import { beginningOf } from '#shared/kernel/text.ts';
import { instantOf } from '#shared/kernel/time.ts';

/** A user's notification preferences. `_id` is the user's id. Without a row, every type is allowed and nothing is muted. */
export interface Preferences {
  _id: string;
  /** An explicit false disables a type; every other type is allowed. */
  enabledTypes: Readonly<Record<string, boolean>>;
  mutedUntil: Date | null;
  /** An explicit false turns the channel off. Absent until the user chooses. */
  channels?: ChannelChoice | null;
  updatedAt: Date | null;
}

/** Channels that reach a person, who may turn them off. The others reach systems of the school. */
export const PERSONAL_CHANNELS = ['email', 'webpush'] as const;

export type ChannelChoice = Readonly<Partial<Record<(typeof PERSONAL_CHANNELS)[number], boolean>>>;

export const MAX_ENABLED_TYPES = 500;

/** Matches the valid notification types, as `schemas/notification/notification-type.json` does. */
const TYPE_NAME = /^\P{Cc}{1,128}$/u;

/** ERASED: the notification is to an erased person or about one. */
export type SuppressionReason = 'TYPE_DISABLED' | 'MUTED' | 'ERASED';

export interface Suppression {
  userId: string;
  reason: SuppressionReason;
}

/** Returns the key of a preference: the event's preference type, else the notification's own, else its type. */
export function preferenceKey(
  input: { type: string; preferenceType?: string | null },
  eventPreferenceType: string | null = null,
): string {
  return eventPreferenceType ?? input.preferenceType ?? input.type;
}

/** Returns why this user must not be notified at `now`, or null. At the instant `mutedUntil` the mute is over. Pure. */
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

/** Returns true if this user has turned the channel off. The inbox has no channel and is never off. Pure. */
export function isChannelOff(preferences: Pick<Preferences, 'channels'> | null | undefined, channel: string): boolean {
  const choice: Readonly<Record<string, boolean>> = preferences?.channels ?? {};
  return Object.hasOwn(choice, channel) && choice[channel] === false;
}

/** Changes to stored preferences. */
export interface PreferencesChange {
  /** Merged into the stored map, type by type. */
  enabledTypes: Readonly<Record<string, boolean>>;
  /** null ends the mute; undefined leaves it unchanged. */
  mutedUntil: Date | null | undefined;
  /** Merged into the stored choice, channel by channel. */
  channels?: ChannelChoice;
}

/**
 * Returns the faults of a patch that its schema does not detect: invalid type names, values that are not boolean, too many types.
 * Places of `known` faults are omitted.
 */
export function preferencesFaults(body: unknown, known: readonly FaultDetail[] = []): FaultDetail[] {
  const types = typeof body === 'object' && body !== null && 'enabledTypes' in body ? body.enabledTypes : undefined;
  if (typeof types !== 'object' || types === null || Array.isArray(types)) return [];
  const entries = Object.entries(types);
  if (entries.length > MAX_ENABLED_TYPES) return [TOO_MANY_TYPES];
  const faults = entries.flatMap(([name, value]): FaultDetail[] => {
    const path = `/enabledTypes/${pointerStep(name)}`;
    if (!TYPE_NAME.test(name))
      return [{ path, message: 'must be a notification type: 1-128 characters without control characters' }];
    return typeof value === 'boolean' ? [] : [{ path, message: 'must be boolean' }];
  });
  return unknownTo(known, faults);
}

/** Returns a name as a step of a JSON pointer. A name of more than 256 characters is cut, so that the reply stays small. */
function pointerStep(name: string): string {
  const short = name.length > 256 ? `${beginningOf(name, 256)}...` : name;
  return short.toWellFormed().replaceAll('~', '~0').replaceAll('/', '~1');
}

/** Also returned if a patch of acceptable size would make the stored map too large. */
export const TOO_MANY_TYPES: FaultDetail = {
  path: '/enabledTypes',
  message: `must result in at most ${MAX_ENABLED_TYPES} types`,
};

/** Converts a patch without faults to a change. */
export function readPreferencesPatch(body: {
  enabledTypes?: Record<string, unknown>;
  mutedUntil?: string | null;
  channels?: ChannelChoice | null;
}): PreferencesChange {
  return {
    enabledTypes: (body.enabledTypes ?? {}) as Record<string, boolean>,
    mutedUntil: body.mutedUntil === undefined ? undefined : instantOf(body.mutedUntil),
    ...(body.channels == null ? {} : { channels: body.channels }),
  };
}

/** Returns the `data` of a reply. A user without a row (null) has the default preferences. `channels` is absent until the user chooses. */
export function preferencesView(stored: Omit<Preferences, '_id'> | null) {
  const channels = stored?.channels ?? null;
  return {
    enabledTypes: stored?.enabledTypes ?? {},
    mutedUntil: stored?.mutedUntil?.toISOString() ?? null,
    ...(channels === null ? {} : { channels }),
    updatedAt: stored?.updatedAt?.toISOString() ?? null,
  };
}
