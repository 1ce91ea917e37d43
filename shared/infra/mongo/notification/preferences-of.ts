import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import type { Preferences } from '#shared/notification/preferences.ts';
import { preferences } from './collections.ts';

/** The preferences of these users; who has set none is not in the map. */
export async function preferencesOf(mongo: Mongo, userIds: readonly string[]): Promise<Map<string, Preferences>> {
  if (userIds.length === 0) return new Map();
  const found = await preferences(mongo)
    .find({ _id: { $in: [...new Set(userIds)] } }, { maxTimeMS: QUERY_LIMIT_MS })
    .toArray();
  return new Map(found.map((row) => [row._id, row]));
}
