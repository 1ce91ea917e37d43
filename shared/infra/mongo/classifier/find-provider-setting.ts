import { DEFAULT_SETTING, type ProviderSetting } from '../../../classifier/provider-setting.ts';
import { type Mongo, QUERY_LIMIT_MS } from '../connect.ts';
import { providerSettings } from './collections.ts';

/** The stored setting; null: none was ever saved. */
export function findProviderSetting(mongo: Mongo): Promise<ProviderSetting | null> {
  return providerSettings(mongo).findOne({ _id: DEFAULT_SETTING }, { maxTimeMS: QUERY_LIMIT_MS });
}
