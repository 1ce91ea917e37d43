import { GENERIC_KEY_VARIABLE, KEY_VARIABLE, type KeyVariable } from '#shared/classifier/provider/names.ts';
import type { VariableReader } from './variable-reader.ts';

export interface ClassifierSettings {
  /** May be none that we know. */
  provider: string;
  model: string | null;
  /** null = unset; empty = set to nothing, which is no address, not the provider's official one. */
  baseUrl: string | null;
  /** Origins beside the official ones to which a key may go. */
  allowedOrigins: readonly string[];
  /** Keys by the variable that holds them; what is unset is not there, what is set to nothing is empty and no key. */
  keys: Readonly<Partial<Record<KeyVariable, string>>>;
  timeoutMs: number;
  maxRetries: number;
  circuit: { failures: number; cooldownMs: number };
  streaming: boolean;
  batchConcurrency: number;
  worker: {
    enabled: boolean;
    concurrency: number;
    pollIntervalMs: number;
    leaseMs: number;
    maxAttempts: number;
    retryBaseDelayMs: number;
  };
  /** Generated questions are paid for. */
  settles: boolean;
  settlementWorkerEnabled: boolean;
}

const KEY_VARIABLES: readonly KeyVariable[] = [
  GENERIC_KEY_VARIABLE,
  ...Object.values(KEY_VARIABLE).filter((name) => name !== null),
];

export function readClassifier(from: VariableReader): ClassifierSettings {
  const keys: Partial<Record<KeyVariable, string>> = {};
  for (const name of KEY_VARIABLES) {
    const key = from.token(name);
    if (from.isSet(name)) keys[name] = key ?? '';
  }
  // Both are read: a fault of the one that is beaten is a fault all the same.
  const timeoutMs = from.integer('AI_PROVIDER_TIMEOUT_MS');
  const isOn = (name: Parameters<VariableReader['word']>[0]) => from.word(name, ['0', '1']) === '1';
  return {
    provider: from.text('AI_CLASSIFIER_PROVIDER'),
    model: from.optionalText('AI_CLASSIFIER_MODEL'),
    baseUrl: from.neighbour('AI_CLASSIFIER_BASE_URL') ?? (from.isSet('AI_CLASSIFIER_BASE_URL') ? '' : null),
    allowedOrigins: from.origins('AI_CLASSIFIER_ALLOWED_BASE_URLS'),
    keys,
    timeoutMs: from.optionalInteger('AI_CLASSIFIER_TIMEOUT_MS') ?? timeoutMs,
    maxRetries: from.integer('AI_CLASSIFIER_MAX_RETRIES'),
    circuit: {
      failures: from.integer('AI_CLASSIFIER_CIRCUIT_FAILURES'),
      cooldownMs: from.integer('AI_CLASSIFIER_CIRCUIT_COOLDOWN_MS'),
    },
    streaming: isOn('AI_CLASSIFIER_STREAMING'),
    batchConcurrency: from.integer('AI_CLASSIFIER_BATCH_CONCURRENCY'),
    worker: {
      enabled: isOn('AI_CLASSIFIER_WORKER_ENABLED'),
      concurrency: from.integer('AI_CLASSIFIER_WORKER_CONCURRENCY'),
      pollIntervalMs: from.integer('AI_CLASSIFIER_WORKER_POLL_INTERVAL_MS'),
      leaseMs: from.integer('AI_CLASSIFIER_WORKER_LEASE_MS'),
      maxAttempts: from.integer('AI_CLASSIFIER_WORKER_MAX_ATTEMPTS'),
      retryBaseDelayMs: from.integer('AI_CLASSIFIER_WORKER_RETRY_BASE_DELAY_MS'),
    },
    settles: isOn('AI_GENERATION_USAGE_WALLET_ENABLED'),
    settlementWorkerEnabled: isOn('AI_GENERATION_SETTLEMENT_WORKER_ENABLED'),
  };
}
