import { addressKind, isMetadataName } from './address-kind.ts';
import type { CircuitPhase } from './circuit.ts';
import {
  GENERIC_KEY_VARIABLE,
  KEY_VARIABLE,
  type KeyVariable,
  OFFICIAL_BASE_URLS,
  PROVIDERS,
  type ProviderName,
} from './names.ts';

/** Which provider is asked, as the environment or a stored setting says it. */
export interface ProviderSelection {
  /** May be none that this process knows: a slip in the environment, or stored by a newer process. */
  provider: string;
  /** null = a default of the provider. */
  model: string | null;
  /** null = the provider's official address. */
  baseUrl: string | null;
  /** The variable that holds the key; null = the generic one, else the provider's own. */
  apiKeyRef: KeyVariable | null;
}

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
type TargetFault = 'UNSUPPORTED' | 'NO_MODEL' | 'NO_BASE_URL' | 'NO_KEY' | BaseUrlFault;

interface Surroundings {
  keys: Readonly<Partial<Record<KeyVariable, string>>>;
  /** Origins beside the official ones to which a key may go. */
  allowedOrigins: readonly string[];
}

/** What is asked where a selection names no model; `local` has none. */
const DEFAULT_MODELS: Readonly<Record<ProviderName, string | null>> = {
  mock: 'mock-1',
  local: null,
  openai: 'gpt-4.1-mini',
  anthropic: 'claude-haiku-4-5',
  gemini: 'gemini-2.5-flash',
  deepseek: 'deepseek-chat',
};

export type ChosenTarget = { kind: 'usable'; target: Target } | { kind: 'unusable'; fault: TargetFault };

/** The provider that a selection means, or why it cannot be asked. */
export function targetOf(selection: ProviderSelection, around: Surroundings): ChosenTarget {
  const provider = knownProvider(selection);
  if (provider === undefined) return unusable('UNSUPPORTED');
  const model = modelOf(selection);
  if (model === null) return unusable('NO_MODEL');
  if (provider === 'mock') return usable({ provider, model, baseUrl: null, origin: null, key: null });
  const given = selection.baseUrl ?? OFFICIAL_BASE_URLS[provider];
  if (given === null) return unusable('NO_BASE_URL');
  const address = readBaseUrl(given, { provider, allowedOrigins: around.allowedOrigins });
  if (address.kind === 'refused') return unusable(address.fault);
  const key = keyOf(selection, around);
  // A server of one's own may want no key; one that was named is wanted.
  if (key === null && (provider !== 'local' || selection.apiKeyRef !== null)) return unusable('NO_KEY');
  return usable({ provider, model, baseUrl: address.url, origin: address.origin, key });
}

function usable(target: Target): ChosenTarget {
  return { kind: 'usable', target };
}

function unusable(fault: TargetFault): ChosenTarget {
  return { kind: 'unusable', fault };
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

/** `url` is without a final slash. */
type BaseUrl = { kind: 'allowed'; url: string; origin: string } | { kind: 'refused'; fault: BaseUrlFault };

/** Why a text is no address that a provider may be asked at. */
type BaseUrlFault = 'NOT_A_BASE_URL' | 'FORBIDDEN_HOST' | 'ORIGIN_NOT_ALLOWED' | 'NOT_HTTPS';

const MOST_URL_LETTERS = 2_048;

/**
 * A base URL at which this provider may be asked, with its key: its official origin or one that the operator listed,
 * over https except to a listed loopback address, and never a link-local address or a metadata service, listed or not.
 * Whatever is spelled in a way that two readers could understand differently is none.
 */
export function readBaseUrl(
  text: string,
  { provider, allowedOrigins }: { provider: ProviderName; allowedOrigins: readonly string[] },
): BaseUrl {
  const url = plainUrl(text);
  if (url === null) return { kind: 'refused', fault: 'NOT_A_BASE_URL' };
  const kind = addressKind(url.hostname);
  if (kind === 'forbidden' || isMetadataName(url.hostname)) return { kind: 'refused', fault: 'FORBIDDEN_HOST' };
  const isListed = allowedOrigins.includes(url.origin);
  const official = OFFICIAL_BASE_URLS[provider];
  if (!isListed && (official === null || new URL(official).origin !== url.origin)) {
    return { kind: 'refused', fault: 'ORIGIN_NOT_ALLOWED' };
  }
  const isLoopback = kind === 'loopback' || url.hostname === 'localhost';
  if (url.protocol !== 'https:' && !(isListed && isLoopback)) return { kind: 'refused', fault: 'NOT_HTTPS' };
  return { kind: 'allowed', url: url.href.replace(/\/+$/, ''), origin: url.origin };
}

/** Printable ASCII, a host spelled as every reader understands it, no credentials, query or fragment. */
function plainUrl(text: string): URL | null {
  if (text.length > MOST_URL_LETTERS || !/^https?:\/\/[^/?#@%\\\s]+(\/[^?#@%\\\s]*)?$/i.test(text)) return null;
  if (!/^[\x21-\x7e]+$/.test(text)) return null;
  const url = URL.parse(text);
  if (url === null || url.port === '0' || url.hostname.endsWith('.')) return null;
  // 2130706433 and 0x7f.1 are 127.0.0.1 to some readers: an address is to be spelled as one.
  const host = /^https?:\/\/([^/]+)/i.exec(text)?.[1]?.toLowerCase() ?? '';
  const named = host.startsWith('[') ? host.replace(/\].*$/, ']') : host.replace(/:\d*$/, '');
  return url.hostname === named || named.startsWith('[') ? url : null;
}

/** What is known of the provider without asking it; never a secret. */
export interface ProviderStatus {
  /** `degraded`: asks are refused, or fail for want of a key. */
  status: 'ok' | 'degraded';
  provider: string;
  model: string | null;
  configurationSource: ConfigurationSource;
  apiKeyConfigured: boolean;
  features: {
    classify: boolean;
    generate: boolean;
    explain: boolean;
    grade: boolean;
    streaming: boolean;
    structuredOutput: boolean;
  };
  circuit: {
    state: CircuitPhase;
    consecutiveFailures: number;
    /** Until when the provider is left alone. */
    openUntil: Date | null;
    /** Until when the provider asked for a pause. */
    throttledUntil: Date | null;
  };
}

type ConfigurationSource = 'environment' | 'database';
