import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import { guardedUpdate, literal, wasAccepted } from '#infra/mongo/guarded-update.ts';
import { MAX_ENABLED_TYPES, type Preferences, type PreferencesChange } from '#shared/notification/preferences.ts';
import { preferences } from './collections.ts';

/** What a user has set; null: nothing ever. */
export function findPreferences(mongo: Mongo, userId: string): Promise<Preferences | null> {
  return preferences(mongo).findOne({ _id: userId }, { maxTimeMS: QUERY_LIMIT_MS });
}

/** The preferences of these users; who has set none is not in the map. */
export async function preferencesOf(mongo: Mongo, userIds: readonly string[]): Promise<Map<string, Preferences>> {
  if (userIds.length === 0) return new Map();
  const found = await preferences(mongo)
    .find({ _id: { $in: [...new Set(userIds)] } }, { maxTimeMS: QUERY_LIMIT_MS })
    .toArray();
  return new Map(found.map((row) => [row._id, row]));
}

/** Merges a change into what a user has set. `full`: that would be more types than a user may have, and nothing was changed. */
export async function patchPreferences(
  mongo: Mongo,
  userId: string,
  change: PreferencesChange,
): Promise<{ kind: 'patched'; preferences: Preferences } | { kind: 'full' }> {
  const merged = { $mergeObjects: ['$enabledTypes', literal(change.enabledTypes)] };
  const update = guardedUpdate([{ $lte: [{ $size: { $objectToArray: merged } }, MAX_ENABLED_TYPES] }], {
    enabledTypes: merged,
    ...(change.mutedUntil === undefined ? {} : { mutedUntil: literal(change.mutedUntil) }),
    updatedAt: '$$NOW',
  });
  const patch = () =>
    preferences(mongo).findOneAndUpdate({ _id: userId }, update.pipeline, {
      returnDocument: 'after',
      maxTimeMS: QUERY_LIMIT_MS,
    });
  let row = await patch();
  if (row === null) {
    await insertEmpty(mongo, userId);
    row = await patch();
  }
  if (row === null || !wasAccepted(update, row)) return { kind: 'full' };
  return { kind: 'patched', preferences: row };
}

/** Two first patches of one user may race: both find the row of the one that came first. */
async function insertEmpty(mongo: Mongo, userId: string): Promise<void> {
  try {
    await preferences(mongo).insertOne({ _id: userId, enabledTypes: {}, mutedUntil: null, updatedAt: null });
  } catch (error) {
    if (!isDuplicateKey(error)) throw error;
  }
}
