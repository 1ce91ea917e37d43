import { type BaseUrlFault, readBaseUrl } from './base-url.ts';
import { OFFICIAL_BASE_URLS } from './official-addresses.ts';
import {
  GENERIC_KEY_VARIABLE,
  KEY_VARIABLE,
  type KeyVariable,
  PROVIDERS,
  type ProviderName,
} from './provider-names.ts';
import type { ProviderSelection } from './provider-selection.ts';

/** What is asked where a selection names no model; `local` has none. */
const DEFAULT_MODELS: Readonly<Record<ProviderName, string | null>> = {
  mock: 'mock-1',
  local: null,
  openai: 'gpt-4.1-mini',
  anthropic: 'claude-haiku-4-5',
  gemini: 'gemini-2.5-flash',
  deepseek: 'deepseek-chat',
};

/** A provider that can be asked. */
export interface Target {
  provider: ProviderName;
  model: string;
  /** Without a final slash; null for the mock alone. */
  baseUrl: string | null;
  origin: string | null;
  key: string | null;
}

/** Why nothing can be asked. */
export type TargetFault = 'UNSUPPORTED' | 'NO_MODEL' | 'NO_BASE_URL' | 'NO_KEY' | BaseUrlFault;

interface Surroundings {
  keys: Readonly<Partial<Record<KeyVariable, string>>>;
  /** Origins beside the official ones to which a key may go. */
  allowedOrigins: readonly string[];
}

/** The provider that a selection means, or why it cannot be asked. */
export function targetOf(selection: ProviderSelection, around: Surroundings): Target | { fault: TargetFault } {
  const provider = knownProvider(selection);
  if (provider === undefined) return { fault: 'UNSUPPORTED' };
  const model = modelOf(selection);
  if (model === null) return { fault: 'NO_MODEL' };
  if (provider === 'mock') return { provider, model, baseUrl: null, origin: null, key: null };
  const given = selection.baseUrl ?? OFFICIAL_BASE_URLS[provider];
  if (given === null) return { fault: 'NO_BASE_URL' };
  const address = readBaseUrl(given, { provider, allowedOrigins: around.allowedOrigins });
  if ('fault' in address) return address;
  const key = keyOf(selection, around);
  // A server of one's own may want no key; one that was named is wanted.
  if (key === null && (provider !== 'local' || selection.apiKeyRef !== null)) return { fault: 'NO_KEY' };
  return { provider, model, baseUrl: address.url, origin: address.origin, key };
}

function knownProvider({ provider }: Pick<ProviderSelection, 'provider'>): ProviderName | undefined {
  return PROVIDERS.find((name) => name === provider);
}

export function modelOf(selection: ProviderSelection): string | null {
  const provider = knownProvider(selection);
  return selection.model ?? (provider === undefined ? null : DEFAULT_MODELS[provider]);
}

/** The key that this selection would be asked with; null = there is none, which the mock and `local` can do without. */
export function keyOf(selection: ProviderSelection, { keys }: Pick<Surroundings, 'keys'>): string | null {
  const { apiKeyRef } = selection;
  const provider = knownProvider(selection);
  if (provider === undefined || provider === 'mock') return null;
  const own = KEY_VARIABLE[provider];
  const key = apiKeyRef === null ? (keys[GENERIC_KEY_VARIABLE] ?? (own === null ? null : keys[own])) : keys[apiKeyRef];
  // Set to nothing is set: it beats the provider's own, and is no key.
  return key === undefined || key === '' ? null : key;
}

/** The variables that a selection of this provider may name as its key. */
export function keyVariablesOf(provider: ProviderName): readonly KeyVariable[] {
  const own = KEY_VARIABLE[provider];
  return own === null ? [GENERIC_KEY_VARIABLE] : [GENERIC_KEY_VARIABLE, own];
}
