import type { ProviderRuntime, ProviderSetting as SettingView } from '#shared/generated/classifier.ts';
import type { ProviderStatus } from './provider-selection.ts';
import type { ProviderSetting } from './provider-setting.ts';

/** A setting as an ADMIN sees it. */
export function settingView(setting: ProviderSetting): SettingView {
  const { provider, model, baseUrl, apiKeyRef, enabled, version, updatedAt, updatedBy } = setting;
  return { provider, model, baseUrl, apiKeyRef, enabled, version, updatedAt: updatedAt.toISOString(), updatedBy };
}

/** What is known of the provider of now, as it is told. */
export function runtimeView({ circuit, ...status }: ProviderStatus): ProviderRuntime {
  const { openUntil, throttledUntil } = circuit;
  return {
    ...status,
    circuit: {
      ...circuit,
      openUntil: openUntil?.toISOString() ?? null,
      throttledUntil: throttledUntil?.toISOString() ?? null,
    },
  };
}
