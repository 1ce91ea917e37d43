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

/** The selected provider, from the environment or a stored setting. */
export interface ProviderSelection {
  /** May be unknown to this process, through a typing error in the environment or a setting of a newer process. */
  provider: string;
  /** null = the provider's default model. */
  model: string | null;
  /** null = the provider's official address. */
  baseUrl: string | null;
  /** The variable that holds the key; null = the generic variable, otherwise the provider's own. */
  apiKeyRef: KeyVariable | null;
}

/** A provider with everything that a call needs. */
export interface Target {
  provider: ProviderName;
  model: string;
  /** Has no final slash; null only for the mock. */
  baseUrl: string | null;
  origin: string | null;
  /** The environment names the origin, so its host may resolve to a private address. */
  mayBePrivate: boolean;
  key: string | null;
}

/** Reason why a selection cannot be called. */
type TargetFault = 'UNSUPPORTED' | 'NO_BASE_URL' | 'NO_KEY' | BaseUrlFault;

/** Addresses that the environment trusts with a key. */
export interface TrustedAddresses {
  /** The environment's provider. A typing error there may name an unknown one. */
  provider: string;
  /** Base URL of the environment's provider; null = its own place below, or its official one. */
  baseUrl: string | null;
  /** Where the environment has each provider, whichever is selected. Absent: at its official address, with our default model. */
  places: Readonly<Partial<Record<ProviderName, ProviderPlace>>>;
  /** Origins to which the key of any provider may go. */
  allowedOrigins: readonly string[];
}

/** A provider in the environment; null = unset. */
export interface ProviderPlace {
  baseUrl: string | null;
  model: string | null;
}

interface TargetSettings extends TrustedAddresses {
  keys: Readonly<Partial<Record<KeyVariable, string>>>;
}

/** Models for selections that name none. A server with one loaded model ignores the name that `local` sends. */
const DEFAULT_MODELS: Readonly<Record<ProviderName, string>> = {
  mock: 'mock-1',
  local: 'default',
  openai: 'gpt-4.1-mini',
  anthropic: 'claude-haiku-4-5',
  gemini: 'gemini-2.5-flash',
  deepseek: 'deepseek-chat',
};

export type ChosenTarget = { kind: 'usable'; target: Target } | { kind: 'unusable'; fault: TargetFault };

/** Returns the provider that a selection means, or the reason why it cannot be called. */
export function targetOf(selection: ProviderSelection, settings: TargetSettings): ChosenTarget {
  const provider = knownProvider(selection);
  if (provider === undefined) return unusable('UNSUPPORTED');
  const model = selection.model ?? settings.places[provider]?.model ?? DEFAULT_MODELS[provider];
  if (provider === 'mock')
    return usable({ provider, model, baseUrl: null, origin: null, mayBePrivate: false, key: null });
  const given = selection.baseUrl ?? settings.places[provider]?.baseUrl ?? OFFICIAL_BASE_URLS[provider];
  if (given === null) return unusable('NO_BASE_URL');
  const address = readBaseUrl(given, provider, settings);
  if (address.kind === 'refused') return unusable(address.fault);
  const key = keyOf(selection, settings);
  // A local server may need no key, but a key variable that the setting names must be set.
  if (key === null && (provider !== 'local' || selection.apiKeyRef !== null)) return unusable('NO_KEY');
  const { url: baseUrl, origin, isNamed: mayBePrivate } = address;
  return usable({ provider, model, baseUrl, origin, mayBePrivate, key });
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

/** Returns the selected model, that of the environment or the provider's default; null for an unknown provider without a model. */
export function modelOf(selection: Pick<ProviderSelection, 'provider' | 'model'>, places: TrustedAddresses['places']) {
  const provider = knownProvider(selection);
  if (selection.model !== null || provider === undefined) return selection.model;
  return places[provider]?.model ?? DEFAULT_MODELS[provider];
}

/**
 * Returns the key for the calls of this selection, or null if it has no key; the mock and `local` can do without. The generic key
 * belongs to the environment's provider. For another provider it counts as unset, even if a setting names it.
 */
export function keyOf(
  selection: ProviderSelection,
  { keys, provider: ownProvider }: Pick<TargetSettings, 'keys' | 'provider'>,
): string | null {
  const { apiKeyRef } = selection;
  const provider = knownProvider(selection);
  if (provider === undefined || provider === 'mock') return null;
  const keyIn = (variable: KeyVariable | null) => {
    const isForeign = variable === GENERIC_KEY_VARIABLE && provider !== ownProvider;
    return variable === null || isForeign ? undefined : keys[variable];
  };
  const key = apiKeyRef === null ? (keyIn(GENERIC_KEY_VARIABLE) ?? keyIn(KEY_VARIABLE[provider])) : keyIn(apiKeyRef);
  // A variable set to the empty string overrides the provider's own variable and means "no key".
  return key === undefined || key === '' ? null : key;
}

/** Returns the variables that a selection of this provider may name as its key. */
export function keyVariablesOf(provider: ProviderName): readonly KeyVariable[] {
  const own = KEY_VARIABLE[provider];
  return own === null ? [GENERIC_KEY_VARIABLE] : [GENERIC_KEY_VARIABLE, own];
}

/** `url` has no final slash. `isNamed`: the environment names this origin. */
type BaseUrl =
  | { kind: 'allowed'; url: string; origin: string; isNamed: boolean }
  | { kind: 'refused'; fault: BaseUrlFault };

/** Reason why a text is refused as the base URL of a provider. */
type BaseUrlFault = 'NOT_A_BASE_URL' | 'FORBIDDEN_HOST' | 'ORIGIN_NOT_ALLOWED' | 'NOT_HTTPS';

const MAX_URL_LENGTH = 2_048;

/**
 * Reads a base URL at which this provider may be called with its key. Allowed are the provider's official origin, the origins of the
 * environment's base URLs for this provider, and those in the environment's list. Plain http requires that the environment
 * names the URL, and that its host is a loopback address, a private address or a name of one label. Link-local addresses and
 * metadata services are always refused. So is a spelling that two URL parsers could read differently.
 */
export function readBaseUrl(text: string, provider: ProviderName, trusted: TrustedAddresses): BaseUrl {
  const url = plainUrl(text);
  if (url === null) return { kind: 'refused', fault: 'NOT_A_BASE_URL' };
  const kind = addressKind(url.hostname);
  if (kind === 'forbidden' || isMetadataName(url.hostname)) return { kind: 'refused', fault: 'FORBIDDEN_HOST' };
  const isNamed = isNamedBy(trusted, provider, url.origin);
  const official = OFFICIAL_BASE_URLS[provider];
  if (!isNamed && (official === null || new URL(official).origin !== url.origin)) {
    return { kind: 'refused', fault: 'ORIGIN_NOT_ALLOWED' };
  }
  const isNear = kind === null ? !url.hostname.includes('.') : kind !== 'public';
  if (url.protocol !== 'https:' && !(isNamed && isNear)) return { kind: 'refused', fault: 'NOT_HTTPS' };
  return { kind: 'allowed', url: url.href.replace(/\/+$/, ''), origin: url.origin, isNamed };
}

function isNamedBy(trusted: TrustedAddresses, provider: ProviderName, origin: string): boolean {
  if (trusted.allowedOrigins.includes(origin)) return true;
  const own = [trusted.places[provider]?.baseUrl, trusted.provider === provider ? trusted.baseUrl : null];
  return own.some((url) => typeof url === 'string' && plainUrl(url)?.origin === origin);
}

/**
 * Parses a URL of printable ASCII, without credentials, query or fragment. Returns null if URL parsers could disagree on the host.
 */
function plainUrl(text: string): URL | null {
  if (text.length > MAX_URL_LENGTH || !/^https?:\/\/[^/?#@%\\\s]+(\/[^?#@%\\\s]*)?$/i.test(text)) return null;
  if (!/^[\x21-\x7e]+$/.test(text)) return null;
  const url = URL.parse(text);
  if (url === null || url.port === '0' || url.hostname.endsWith('.')) return null;
  // Some parsers read 2130706433 and 0x7f.1 as 127.0.0.1, so an address must be spelled in its usual form.
  const host = /^https?:\/\/([^/]+)/i.exec(text)?.[1]?.toLowerCase() ?? '';
  const named = host.startsWith('[') ? host.replace(/\].*$/, ']') : host.replace(/:\d*$/, '');
  return url.hostname === named || named.startsWith('[') ? url : null;
}

/** Status of the provider, known without calling it; never contains a secret. */
export interface ProviderStatus {
  /** `degraded`: calls are refused, or fail because a key is missing. */
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
    /** Time until which the circuit is open. */
    openUntil: Date | null;
    /** Time until which the provider requested a pause. */
    throttledUntil: Date | null;
  };
}

type ConfigurationSource = 'environment' | 'database';
