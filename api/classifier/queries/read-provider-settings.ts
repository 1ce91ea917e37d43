import type { ProviderDeps } from '#api/classifier/provider-deps.ts';
import type { Reply } from '#api/route.ts';
import { findProviderSetting } from '#infra/mongo/classifier/providers.ts';
import { runtimeView, settingView } from '#shared/classifier/provider/setting.ts';

/** The stored setting beside what is in force. */
export async function readProviderSettings(deps: Pick<ProviderDeps, 'mongo' | 'models'>): Promise<Reply> {
  const setting = await findProviderSetting(deps.mongo);
  const runtime = runtimeView(await deps.models.status());
  return { status: 200, data: { setting: setting === null ? null : settingView(setting), runtime } };
}
