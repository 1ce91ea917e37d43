import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import { guardedUpdate, literal, wasAccepted } from '#infra/mongo/guarded-update.ts';
import { MAX_ENABLED_TYPES, type Preferences, type PreferencesChange } from '#shared/notification/preferences.ts';
import { preferences } from './collections.ts';

/** Merges a change into what a user has set. null: that would be more types than a user may have, and nothing was changed. */
export async function patchPreferences(
  mongo: Mongo,
  userId: string,
  change: PreferencesChange,
): Promise<Preferences | null> {
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
  return wasAccepted(update, row) ? row : null;
}

/** Two first patches of one user may race: both find the row of the one that came first. */
async function insertEmpty(mongo: Mongo, userId: string): Promise<void> {
  try {
    await preferences(mongo).insertOne({ _id: userId, enabledTypes: {}, mutedUntil: null, updatedAt: null });
  } catch (error) {
    if (!isDuplicateKey(error)) throw error;
  }
}
