import type { Reader } from '#infra/config/readers.ts';
import { flag, guarded, inGroup, integer, text, textOf } from '#infra/config/rows.ts';
import { PROVIDERS, type ProviderName } from '#shared/classifier/provider/names.ts';
import { modelOf } from '#shared/classifier/provider/target.ts';

/** Front doors call models for previews and generations, the worker for jobs. */
const CALLERS: readonly Reader[] = ['web:classifier', 'classifier'];
const MODELS = PROVIDERS.flatMap((provider) => {
  const model = modelOf({ provider, model: null }, {});
  return model === null ? [] : [`\`${model}\` (\`${provider}\`)`];
});

const place = (provider: ProviderName) =>
  guarded(
    'neighbour',
    CALLERS,
    `Base URL of \`${provider}\`, also if a stored setting selects it without one. Its key may be sent there.`,
  );
const model = (provider: ProviderName) => textOf('model', null, null, `Model of \`${provider}\`.`);

/** The AI classifier service, its workers and its model providers. */
export const CLASSIFIER = inGroup('AI classifier', {
  AI_CLASSIFIER_PROVIDER: text(
    'classifier.provider',
    'mock',
    `Model provider if no stored setting is enabled: ${PROVIDERS.map((name) => `\`${name}\``).join(', ')}. \`mock\` calls no model and always returns the same. With an unknown name only the models are unavailable; their status is \`degraded\`.`,
  ),
  AI_CLASSIFIER_MODEL: textOf(
    'model',
    'classifier.model',
    null,
    `Model of \`AI_CLASSIFIER_PROVIDER\`; unset = that of its own variable, or its default: ${MODELS.join(', ')}. A local server with one loaded model ignores the name; one that chooses by name needs this variable.`,
  ),
  AI_CLASSIFIER_BASE_URL: guarded(
    'neighbour',
    CALLERS,
    'Base URL of `AI_CLASSIFIER_PROVIDER`; unset = that of its own variable, or its official one. `local` needs one of the two. The key of this provider may be sent to its origin. Plain http is allowed for loopback and private addresses and for hosts of one label.',
  ),
  AI_CLASSIFIER_ALLOWED_BASE_URLS: guarded(
    'origins',
    CALLERS,
    'Further origins to which the key of any provider may be sent, comma-separated; plain http as in `AI_CLASSIFIER_BASE_URL`.',
  ),
  AI_CLASSIFIER_API_KEY: guarded(
    'key',
    CALLERS,
    "Key of `AI_CLASSIFIER_PROVIDER`, but of no other provider that a stored setting selects; takes precedence over the provider's own variable.",
  ),
  OPENAI_API_KEY: guarded('key', CALLERS, 'Key of `openai`.'),
  ANTHROPIC_API_KEY: guarded('key', CALLERS, 'Key of `anthropic`.'),
  GEMINI_API_KEY: guarded('key', CALLERS, 'Key of `gemini`.'),
  DEEPSEEK_API_KEY: guarded('key', CALLERS, 'Key of `deepseek`.'),
  LOCAL_BASE_URL: place('local'),
  OPENAI_BASE_URL: place('openai'),
  ANTHROPIC_BASE_URL: place('anthropic'),
  GEMINI_BASE_URL: place('gemini'),
  DEEPSEEK_BASE_URL: place('deepseek'),
  LOCAL_MODEL: model('local'),
  OPENAI_MODEL: model('openai'),
  ANTHROPIC_MODEL: model('anthropic'),
  GEMINI_MODEL: model('gemini'),
  DEEPSEEK_MODEL: model('deepseek'),
  AI_PROVIDER_TIMEOUT_MS: integer(
    null,
    60_000,
    [1, 600_000],
    'Time limit of one provider call, headers and body together.',
  ),
  AI_CLASSIFIER_TIMEOUT_MS: integer(null, null, [1, 600_000], 'Takes precedence over `AI_PROVIDER_TIMEOUT_MS`.'),
  AI_CLASSIFIER_MAX_RETRIES: integer(
    'classifier.maxRetries',
    2,
    [0, 5],
    'Further provider calls after one that failed for a temporary reason.',
  ),
  AI_CLASSIFIER_CIRCUIT_FAILURES: integer(
    'classifier.circuit.failures',
    5,
    [1, 1_000],
    'Failures in a row after which calls to a provider are suspended.',
  ),
  AI_CLASSIFIER_CIRCUIT_COOLDOWN_MS: integer(
    'classifier.circuit.cooldownMs',
    30_000,
    [1, 3_600_000],
    'Length of that suspension; one call then probes the provider.',
  ),
  AI_CLASSIFIER_STREAMING: flag(
    'classifier.streaming',
    '0',
    '1 = replies are streamed from providers that support it.',
  ),
  AI_CLASSIFIER_BATCH_CONCURRENCY: integer(
    'classifier.batchConcurrency',
    1,
    [1, 5],
    'Batches (5 questions each) of one job that are sent to the provider at once.',
  ),
  AI_CLASSIFIER_MAX_OPEN_JOBS_PER_ACTOR: integer(
    'classifier.openJobLimits.perActor',
    3,
    [1, 1_000],
    'Jobs of one actor that may be PENDING or RUNNING at the same time; one more is 429.',
  ),
  AI_CLASSIFIER_MAX_OPEN_JOBS_PER_ORGANIZATION: integer(
    'classifier.openJobLimits.perOrganization',
    10,
    [1, 1_000],
    'Jobs of one organization that may be PENDING or RUNNING at the same time; one more is 429.',
  ),
  AI_CLASSIFIER_WORKER_ENABLED: flag(
    'classifier.worker.enabled',
    '0',
    '1 = the `classifier` worker runs jobs; 0 = jobs wait.',
  ),
  AI_CLASSIFIER_WORKER_CONCURRENCY: integer(
    'classifier.worker.concurrency',
    2,
    [1, 64],
    'Jobs that one `classifier` worker runs at once.',
  ),
  AI_CLASSIFIER_WORKER_POLL_INTERVAL_MS: integer(
    'classifier.worker.pollIntervalMs',
    1_000,
    [10, 60_000],
    'Interval at which the `classifier` worker polls for due jobs.',
  ),
  AI_CLASSIFIER_WORKER_LEASE_MS: integer(
    'classifier.worker.leaseMs',
    15_000,
    [200, 600_000],
    'Lease of a claimed job; renewed while it runs. The job of a killed worker goes on after so long.',
  ),
  AI_CLASSIFIER_WORKER_MAX_ATTEMPTS: integer(
    'classifier.worker.maxAttempts',
    5,
    [1, 1_000],
    'Attempts of a job before it ends with its partial results.',
  ),
  AI_CLASSIFIER_WORKER_RETRY_BASE_DELAY_MS: integer(
    'classifier.worker.retryBaseDelayMs',
    3_000,
    [1, 3_600_000],
    'First wait between two attempts of a job; doubles, at most five minutes, with jitter.',
  ),
  AI_GENERATION_USAGE_WALLET_ENABLED: flag(
    'classifier.settles',
    '0',
    '1 = generated questions are charged through the usage and wallet services.',
  ),
  AI_GENERATION_SETTLEMENT_WORKER_ENABLED: flag(
    'classifier.settlementWorkerEnabled',
    '0',
    '1 = the `settlement` worker calls usage and wallet service once the provider has answered; 0 = the front door makes these calls. Set the same value for `web` and `settlement`.',
  ),
  AI_SETTLEMENT_WAIT_MS: integer(
    'classifier.settlementWaitMs',
    5_000,
    [0, 60_000],
    'How long a front door waits for the `settlement` worker before it answers 503 `AI_SETTLEMENT_PENDING`.',
  ),
});
