import type { ProviderDeps } from '#api/classifier/provider-deps.ts';
import type { Call, Reply } from '#api/route.ts';
import { saveProviderSetting } from '#infra/mongo/classifier/providers.ts';
import { readChoice, runtimeView, settingView } from '#shared/classifier/provider/setting.ts';
import type { ProviderSettingsRequest } from '#shared/generated/classifier.ts';
import type { Rejection } from '#shared/kernel/errors.ts';

/** Saves a choice, and only then switches: calls under way end where they began. */
export async function saveProviderSettings(
  deps: ProviderDeps,
  call: Call<ProviderSettingsRequest>,
): Promise<Reply | Rejection> {
  const choice = readChoice(call.body, deps.allowedOrigins);
  if ('rejected' in choice) return choice;
  const { actor, organizationId = '' } = call.identity;
  const by = { actorId: actor?.id ?? '', organizationId, at: new Date(deps.now()) };
  const setting = await saveProviderSetting(deps.mongo, choice, by);
  deps.models.changed(setting);
  return { status: 200, data: { setting: settingView(setting), runtime: runtimeView(await deps.models.status()) } };
}
