import type { ProviderRuntime, ProviderSetting as SettingView } from '#shared/generated/classifier.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { type KeyVariable, PROVIDERS, type ProviderName } from './names.ts';
import {
  keyVariablesOf,
  type ProviderSelection,
  type ProviderStatus,
  readBaseUrl,
  type TrustedAddresses,
} from './target.ts';

/** Id of the only setting, the default of every feature. */
export const DEFAULT_SETTING = 'default';

/** The choice of an ADMIN. It names the variable of a key and never holds a key. */
export interface ProviderChoice {
  provider: ProviderName;
  model: string;
  /** null = the provider's official address. */
  baseUrl: string | null;
  apiKeyRef: KeyVariable | null;
  /** false = the environment selects the provider. */
  enabled: boolean;
}

export interface ProviderSetting extends ProviderChoice {
  _id: typeof DEFAULT_SETTING;
  /** Incremented by each save; processes detect a change by it. */
  version: number;
  updatedAt: Date;
  updatedBy: string;
}

/** Audit row of a change: its author, the choice before and after. Kept for ever. */
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

/** A choice as received; only its shape has been checked. */
interface ChoiceBody {
  provider: string;
  model: string;
  baseUrl?: string;
  apiKeyRef?: string;
  enabled?: boolean;
}

/** Returns the choice to store, or the rejection. A key variable that is not set yet is accepted; the status is then `degraded`. */
export function readChoice(body: ChoiceBody, trusted: TrustedAddresses): ProviderChoice | Rejection {
  const provider = PROVIDERS.find((name) => name === body.provider);
  if (provider === undefined) return { rejected: 'AI_PROVIDER_UNSUPPORTED' };
  const apiKeyRef = body.apiKeyRef ?? null;
  const named = keyVariablesOf(provider).find((name) => name === apiKeyRef) ?? null;
  if (named !== apiKeyRef) return { rejected: 'AI_API_KEY_REF_NOT_ALLOWED' };
  const { model, baseUrl: given, enabled = true } = body;
  const hasPlace = provider !== 'local' || typeof trusted.places.local?.baseUrl === 'string';
  if (given === undefined && hasPlace) return { provider, model, baseUrl: null, apiKeyRef: named, enabled };
  const address = readBaseUrl(given ?? '', provider, trusted);
  if (address.kind === 'refused') return { rejected: 'AI_BASE_URL_NOT_ALLOWED' };
  return { provider, model, baseUrl: address.url, apiKeyRef: named, enabled };
}

/** Returns the provider that a setting selects; null = the environment selects it. */
export function selectionOf(setting: ProviderSetting | null): ProviderSelection | null {
  if (setting === null || !setting.enabled) return null;
  const { provider, model, baseUrl, apiKeyRef } = setting;
  return { provider, model, baseUrl, apiKeyRef };
}

/** Returns a setting as an ADMIN sees it. */
export function settingView(setting: ProviderSetting): SettingView {
  const { provider, model, baseUrl, apiKeyRef, enabled, version, updatedAt, updatedBy } = setting;
  return { provider, model, baseUrl, apiKeyRef, enabled, version, updatedAt: updatedAt.toISOString(), updatedBy };
}

/** Returns the status of the current provider as API callers see it. */
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
