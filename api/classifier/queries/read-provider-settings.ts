import { runtimeView, settingView } from '../../../shared/classifier/provider-view.ts';
import { findProviderSetting } from '../../../shared/infra/mongo/classifier/find-provider-setting.ts';
import type { Reply } from '../../route.ts';
import type { ProviderDeps } from '../provider-deps.ts';

/** The stored setting beside what is in force. */
export async function readProviderSettings(deps: Pick<ProviderDeps, 'mongo' | 'models'>): Promise<Reply> {
  const setting = await findProviderSetting(deps.mongo);
  const runtime = runtimeView(await deps.models.status());
  return { status: 200, data: { setting: setting === null ? null : settingView(setting), runtime } };
}
