import {
  GENERIC_KEY_VARIABLE,
  KEY_VARIABLE,
  type KeyVariable,
  PLACED_PROVIDERS,
} from '#shared/classifier/provider/names.ts';
import type { ProviderPlace, TrustedAddresses } from '#shared/classifier/provider/target.ts';
import type { Placed } from './placed.ts';
import type { VariableReader } from './variable-reader.ts';

export type ClassifierSettings = Placed['classifier'] & {
  /** null: unset, so the provider's official URL applies. Empty: set to the empty string, so there is no address at all. */
  baseUrl: string | null;
  places: TrustedAddresses['places'];
  /** Further origins to which the key of any provider may be sent. */
  allowedOrigins: readonly string[];
  /** Keys by their variable. An unset variable is absent. A variable set to the empty string is empty and means "no key". */
  keys: Readonly<Partial<Record<KeyVariable, string>>>;
  timeoutMs: number;
};

const KEY_VARIABLES: readonly KeyVariable[] = [
  GENERIC_KEY_VARIABLE,
  ...Object.values(KEY_VARIABLE).filter((name) => name !== null),
];

export function readClassifier(from: VariableReader, placed: Placed['classifier']): ClassifierSettings {
  const keys: Partial<Record<KeyVariable, string>> = {};
  for (const name of KEY_VARIABLES) {
    const key = from.key(name);
    if (from.isSet(name)) keys[name] = key ?? '';
  }
  // Read both timeouts, because a fault in the overridden one is a fault as well.
  const timeoutMs = from.value('AI_PROVIDER_TIMEOUT_MS');
  const baseUrl = from.neighbour('AI_CLASSIFIER_BASE_URL') ?? (from.isSet('AI_CLASSIFIER_BASE_URL') ? '' : null);
  if (baseUrl?.startsWith('http:')) from.plainHttp.add('AI_CLASSIFIER_BASE_URL');
  const allowedOrigins = from.origins('AI_CLASSIFIER_ALLOWED_BASE_URLS');
  if (allowedOrigins.some((origin) => origin.startsWith('http:')))
    from.plainHttp.add('AI_CLASSIFIER_ALLOWED_BASE_URLS');
  return {
    ...placed,
    baseUrl,
    places: Object.fromEntries(PLACED_PROVIDERS.map((provider) => [provider, placeOf(from, provider)])),
    allowedOrigins,
    keys,
    timeoutMs: from.value('AI_CLASSIFIER_TIMEOUT_MS') ?? timeoutMs,
  };
}

function placeOf(from: VariableReader, provider: (typeof PLACED_PROVIDERS)[number]): ProviderPlace {
  const prefix = provider.toUpperCase() as Uppercase<typeof provider>;
  const baseUrl = from.neighbour(`${prefix}_BASE_URL`);
  if (baseUrl?.startsWith('http:')) from.plainHttp.add(`${prefix}_BASE_URL`);
  return { baseUrl, model: from.value(`${prefix}_MODEL`) };
}
