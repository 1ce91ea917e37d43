import type { OpenJobLimits } from '#shared/classifier/job.ts';
import {
  GENERIC_KEY_VARIABLE,
  KEY_VARIABLE,
  type KeyVariable,
  PLACED_PROVIDERS,
} from '#shared/classifier/provider/names.ts';
import type { ProviderPlace, TrustedAddresses } from '#shared/classifier/provider/target.ts';
import { isOn, type VariableReader } from './variable-reader.ts';

export interface ClassifierSettings {
  /** Name of the provider; may be unknown. */
  provider: string;
  model: string | null;
  /** null: unset, so the provider's official URL applies. Empty: set to the empty string, so there is no address at all. */
  baseUrl: string | null;
  places: TrustedAddresses['places'];
  /** Further origins to which the key of any provider may be sent. */
  allowedOrigins: readonly string[];
  /** Keys by their variable. An unset variable is absent. A variable set to the empty string is empty and means "no key". */
  keys: Readonly<Partial<Record<KeyVariable, string>>>;
  timeoutMs: number;
  maxRetries: number;
  circuit: { failures: number; cooldownMs: number };
  streaming: boolean;
  batchConcurrency: number;
  openJobLimits: OpenJobLimits;
  worker: {
    enabled: boolean;
    concurrency: number;
    pollIntervalMs: number;
    leaseMs: number;
    maxAttempts: number;
    retryBaseDelayMs: number;
  };
  /** True if generated questions are charged. */
  settles: boolean;
  settlementWorkerEnabled: boolean;
  settlementWaitMs: number;
}

const KEY_VARIABLES: readonly KeyVariable[] = [
  GENERIC_KEY_VARIABLE,
  ...Object.values(KEY_VARIABLE).filter((name) => name !== null),
];

export function readClassifier(from: VariableReader): ClassifierSettings {
  const keys: Partial<Record<KeyVariable, string>> = {};
  for (const name of KEY_VARIABLES) {
    const key = from.key(name);
    if (from.isSet(name)) keys[name] = key ?? '';
  }
  // Read both timeouts, because a fault in the overridden one is a fault as well.
  const timeoutMs = from.integer('AI_PROVIDER_TIMEOUT_MS');
  const baseUrl = from.neighbour('AI_CLASSIFIER_BASE_URL') ?? (from.isSet('AI_CLASSIFIER_BASE_URL') ? '' : null);
  if (baseUrl?.startsWith('http:')) from.plainHttp.add('AI_CLASSIFIER_BASE_URL');
  const allowedOrigins = from.origins('AI_CLASSIFIER_ALLOWED_BASE_URLS');
  if (allowedOrigins.some((origin) => origin.startsWith('http:')))
    from.plainHttp.add('AI_CLASSIFIER_ALLOWED_BASE_URLS');
  return {
    provider: from.text('AI_CLASSIFIER_PROVIDER'),
    model: from.modelName('AI_CLASSIFIER_MODEL'),
    baseUrl,
    places: Object.fromEntries(PLACED_PROVIDERS.map((provider) => [provider, placeOf(from, provider)])),
    allowedOrigins,
    keys,
    timeoutMs: from.optionalInteger('AI_CLASSIFIER_TIMEOUT_MS') ?? timeoutMs,
    maxRetries: from.integer('AI_CLASSIFIER_MAX_RETRIES'),
    circuit: {
      failures: from.integer('AI_CLASSIFIER_CIRCUIT_FAILURES'),
      cooldownMs: from.integer('AI_CLASSIFIER_CIRCUIT_COOLDOWN_MS'),
    },
    streaming: isOn(from, 'AI_CLASSIFIER_STREAMING'),
    batchConcurrency: from.integer('AI_CLASSIFIER_BATCH_CONCURRENCY'),
    openJobLimits: {
      perActor: from.integer('AI_CLASSIFIER_MAX_OPEN_JOBS_PER_ACTOR'),
      perOrganization: from.integer('AI_CLASSIFIER_MAX_OPEN_JOBS_PER_ORGANIZATION'),
    },
    worker: {
      enabled: isOn(from, 'AI_CLASSIFIER_WORKER_ENABLED'),
      concurrency: from.integer('AI_CLASSIFIER_WORKER_CONCURRENCY'),
      pollIntervalMs: from.integer('AI_CLASSIFIER_WORKER_POLL_INTERVAL_MS'),
      leaseMs: from.integer('AI_CLASSIFIER_WORKER_LEASE_MS'),
      maxAttempts: from.integer('AI_CLASSIFIER_WORKER_MAX_ATTEMPTS'),
      retryBaseDelayMs: from.integer('AI_CLASSIFIER_WORKER_RETRY_BASE_DELAY_MS'),
    },
    settles: isOn(from, 'AI_GENERATION_USAGE_WALLET_ENABLED'),
    settlementWorkerEnabled: isOn(from, 'AI_GENERATION_SETTLEMENT_WORKER_ENABLED'),
    settlementWaitMs: from.integer('AI_SETTLEMENT_WAIT_MS'),
  };
}

function placeOf(from: VariableReader, provider: (typeof PLACED_PROVIDERS)[number]): ProviderPlace {
  const prefix = provider.toUpperCase() as Uppercase<typeof provider>;
  const baseUrl = from.neighbour(`${prefix}_BASE_URL`);
  if (baseUrl?.startsWith('http:')) from.plainHttp.add(`${prefix}_BASE_URL`);
  return { baseUrl, model: from.modelName(`${prefix}_MODEL`) };
}
