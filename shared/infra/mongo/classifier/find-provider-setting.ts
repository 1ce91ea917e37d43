import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { DEFAULT_SETTING, type ProviderSetting } from '#shared/classifier/provider/setting.ts';
import { providerSettings } from './collections.ts';

/** The stored setting; null: none was ever saved. */
export function findProviderSetting(mongo: Mongo): Promise<ProviderSetting | null> {
  return providerSettings(mongo).findOne({ _id: DEFAULT_SETTING }, { maxTimeMS: QUERY_LIMIT_MS });
}
