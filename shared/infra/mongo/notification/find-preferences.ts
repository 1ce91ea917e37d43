import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import type { Preferences } from '#shared/notification/preferences.ts';
import { preferences } from './collections.ts';

/** What a user has set; null: nothing ever. */
export function findPreferences(mongo: Mongo, userId: string): Promise<Preferences | null> {
  return preferences(mongo).findOne({ _id: userId }, { maxTimeMS: QUERY_LIMIT_MS });
}
