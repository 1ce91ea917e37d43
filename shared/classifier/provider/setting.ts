import type { ProviderRuntime, ProviderSetting as SettingView } from '#shared/generated/classifier.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { type KeyVariable, PROVIDERS, type ProviderName } from './names.ts';
import { keyVariablesOf, type ProviderSelection, type ProviderStatus, readBaseUrl } from './target.ts';

/** The one setting that there is: the default of every feature. */
export const DEFAULT_SETTING = 'default';

/** What an ADMIN chose. Names the variable of a key and never holds one. */
export interface ProviderChoice {
  provider: ProviderName;
  model: string;
  /** null = the provider's official address. */
  baseUrl: string | null;
  apiKeyRef: KeyVariable | null;
  /** false = the environment says who is asked. */
  enabled: boolean;
}

export interface ProviderSetting extends ProviderChoice {
  _id: typeof DEFAULT_SETTING;
  /** Grows by one with each save; by it the processes notice one. */
  version: number;
  updatedAt: Date;
  updatedBy: string;
}

/** Who changed the setting, from what to what; kept for ever. */
export interface SettingChange {
  _id: string;
  settingId: typeof DEFAULT_SETTING;
  version: number;
  at: Date;
  actorId: string;
  organizationId: string;
  before: ProviderChoice | null;
  after: ProviderChoice;
}

/** A choice as it came, its shape checked and nothing else. */
interface ChoiceBody {
  provider: string;
  model: string;
  baseUrl?: string;
  apiKeyRef?: string;
  enabled?: boolean;
}

/**
 * What may be stored of a choice, or why none of it may. A key can be named that is not set yet: then the setting is saved
 * and its status is `degraded`.
 */
export function readChoice(body: ChoiceBody, allowedOrigins: readonly string[]): ProviderChoice | Rejection {
  const provider = PROVIDERS.find((name) => name === body.provider);
  if (provider === undefined) return { rejected: 'AI_PROVIDER_UNSUPPORTED' };
  const apiKeyRef = body.apiKeyRef ?? null;
  const named = keyVariablesOf(provider).find((name) => name === apiKeyRef) ?? null;
  if (named !== apiKeyRef) return { rejected: 'AI_API_KEY_REF_NOT_ALLOWED' };
  const { model, baseUrl: given, enabled = true } = body;
  if (given === undefined && provider !== 'local') return { provider, model, baseUrl: null, apiKeyRef: named, enabled };
  const address = readBaseUrl(given ?? '', { provider, allowedOrigins });
  if (address.kind === 'refused') return { rejected: 'AI_BASE_URL_NOT_ALLOWED' };
  return { provider, model, baseUrl: address.url, apiKeyRef: named, enabled };
}

/** Who is asked by a setting; null = the environment says it. */
export function selectionOf(setting: ProviderSetting | null): ProviderSelection | null {
  if (setting === null || !setting.enabled) return null;
  const { provider, model, baseUrl, apiKeyRef } = setting;
  return { provider, model, baseUrl, apiKeyRef };
}

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
