import type { ClientSession } from 'mongodb';
import { readIn } from '#infra/mongo/causal-read.ts';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { updateRow } from '#infra/mongo/guarded-row.ts';
import { guardedUpdate, literal, wasAccepted } from '#infra/mongo/guarded-update.ts';
import { MAX_ENABLED_TYPES, type Preferences, type PreferencesChange } from '#shared/notification/preferences.ts';
import { type PreferencesRow, preferences } from './collections.ts';

/** Returns the preferences that a user has set, or null. */
export async function findPreferences(
  mongo: Mongo,
  userId: string,
  session?: ClientSession,
): Promise<Preferences | null> {
  const row = await preferences(mongo).findOne({ _id: userId }, { ...readIn(session), maxTimeMS: QUERY_LIMIT_MS });
  return row === null ? null : fromRow(row);
}

/** Returns the preferences of these users. A user who has set none is not in the map. */
export async function preferencesOf(
  mongo: Mongo,
  userIds: readonly string[],
  session?: ClientSession,
): Promise<Map<string, Preferences>> {
  if (userIds.length === 0) return new Map();
  const found = await preferences(mongo)
    .find({ _id: { $in: [...new Set(userIds)] } }, { ...readIn(session), maxTimeMS: QUERY_LIMIT_MS })
    .toArray();
  return new Map(found.map((row) => [row._id, fromRow(row)]));
}

/**
 * Merges a change into the preferences of a user. Returns `full`, and changes nothing, if the user would then have more than
 * MAX_ENABLED_TYPES types.
 */
export async function patchPreferences(
  mongo: Mongo,
  userId: string,
  change: PreferencesChange,
): Promise<{ kind: 'patched'; preferences: Preferences } | { kind: 'full' }> {
  const merged = { $mergeObjects: ['$enabledTypes', literal(renamed(change.enabledTypes, toField))] };
  const update = guardedUpdate([{ $lte: [{ $size: { $objectToArray: merged } }, MAX_ENABLED_TYPES] }], {
    enabledTypes: merged,
    ...(change.mutedUntil === undefined ? {} : { mutedUntil: literal(change.mutedUntil) }),
    ...(change.channels === undefined ? {} : { channels: { $mergeObjects: ['$channels', literal(change.channels)] } }),
    updatedAt: '$$NOW',
  });
  const empty: PreferencesRow = { _id: userId, enabledTypes: {}, mutedUntil: null, updatedAt: null };
  const row = await updateRow(preferences(mongo), empty, update);
  if (!wasAccepted(update, row)) return { kind: 'full' };
  return { kind: 'patched', preferences: fromRow(row) };
}

function fromRow(row: PreferencesRow): Preferences {
  return { ...row, enabledTypes: renamed(row.enabledTypes, fromField) };
}

function renamed(types: Readonly<Record<string, boolean>>, rename: (name: string) => string): Record<string, boolean> {
  return Object.fromEntries(Object.entries(types).map(([name, enabled]) => [rename(name), enabled]));
}

/**
 * Returns the field name of a type. An update reads `$` and `.` in a field name as an operator and as a path. So these two and
 * `%` are stored percent-encoded; every other character is stored as it is.
 */
function toField(type: string): string {
  return type.replace(/[%$.]/g, (character) => `%${character.charCodeAt(0).toString(16)}`);
}

function fromField(name: string): string {
  return name.replace(/%(2[45e])/g, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)));
}
