import type { Reader } from '#infra/config/readers.ts';
import type { Variable } from '#infra/config/variable.ts';
import { PROVIDERS, type ProviderName } from '#shared/classifier/provider/names.ts';
import { modelOf } from '#shared/classifier/provider/target.ts';

const GROUP = 'AI classifier';
/** Front doors call models for previews and generations, the worker for jobs. */
const CALLERS: readonly Reader[] = ['web:classifier', 'classifier'];
const MODELS = PROVIDERS.flatMap((provider) => {
  const model = modelOf({ provider, model: null }, {});
  return model === null ? [] : [`\`${model}\` (\`${provider}\`)`];
});

function place(provider: ProviderName) {
  return {
    group: GROUP,
    default: null,
    readers: CALLERS,
    description: `Base URL of \`${provider}\`, also if a stored setting selects it without one. Its key may be sent there.`,
  };
}

function model(provider: ProviderName) {
  return { group: GROUP, kind: 'text', default: null, description: `Model of \`${provider}\`.` } as const;
}

/** The AI classifier service, its workers and its model providers. */
export const CLASSIFIER = {
  AI_CLASSIFIER_PROVIDER: {
    group: GROUP,
    kind: 'text',
    default: 'mock',
    description: `Model provider if no stored setting is enabled: ${PROVIDERS.map((name) => `\`${name}\``).join(', ')}. \`mock\` calls no model and always returns the same. With an unknown name only the models are unavailable; their status is \`degraded\`.`,
  },
  AI_CLASSIFIER_MODEL: {
    group: GROUP,
    kind: 'text',
    default: null,
    description: `Model of \`AI_CLASSIFIER_PROVIDER\`; unset = that of its own variable, or its default: ${MODELS.join(', ')}. A local server with one loaded model ignores the name; one that chooses by name needs this variable.`,
  },
  AI_CLASSIFIER_BASE_URL: {
    group: GROUP,
    kind: 'neighbour',
    default: null,
    readers: CALLERS,
    description:
      'Base URL of `AI_CLASSIFIER_PROVIDER`; unset = that of its own variable, or its official one. `local` needs one of the two. The key of this provider may be sent to its origin. Plain http is allowed for loopback and private addresses and for hosts of one label.',
  },
  AI_CLASSIFIER_ALLOWED_BASE_URLS: {
    group: GROUP,
    kind: 'origins',
    default: null,
    readers: CALLERS,
    description:
      'Further origins to which the key of any provider may be sent, comma-separated; plain http as in `AI_CLASSIFIER_BASE_URL`.',
  },
  AI_CLASSIFIER_API_KEY: {
    group: GROUP,
    kind: 'key',
    default: null,
    readers: CALLERS,
    description:
      "Key of `AI_CLASSIFIER_PROVIDER`, but of no other provider that a stored setting selects; takes precedence over the provider's own variable.",
  },
  OPENAI_API_KEY: { group: GROUP, kind: 'key', default: null, readers: CALLERS, description: 'Key of `openai`.' },
  ANTHROPIC_API_KEY: { group: GROUP, kind: 'key', default: null, readers: CALLERS, description: 'Key of `anthropic`.' },
  GEMINI_API_KEY: { group: GROUP, kind: 'key', default: null, readers: CALLERS, description: 'Key of `gemini`.' },
  DEEPSEEK_API_KEY: { group: GROUP, kind: 'key', default: null, readers: CALLERS, description: 'Key of `deepseek`.' },
  LOCAL_BASE_URL: { ...place('local'), kind: 'neighbour' },
  OPENAI_BASE_URL: { ...place('openai'), kind: 'neighbour' },
  ANTHROPIC_BASE_URL: { ...place('anthropic'), kind: 'neighbour' },
  GEMINI_BASE_URL: { ...place('gemini'), kind: 'neighbour' },
  DEEPSEEK_BASE_URL: { ...place('deepseek'), kind: 'neighbour' },
  LOCAL_MODEL: model('local'),
  OPENAI_MODEL: model('openai'),
  ANTHROPIC_MODEL: model('anthropic'),
  GEMINI_MODEL: model('gemini'),
  DEEPSEEK_MODEL: model('deepseek'),
  AI_PROVIDER_TIMEOUT_MS: {
    group: GROUP,
    kind: 'integer',
    default: 60_000,
    min: 1,
    max: 600_000,
    description: 'Time limit of one provider call, headers and body together.',
  },
  AI_CLASSIFIER_TIMEOUT_MS: {
    group: GROUP,
    kind: 'integer',
    default: null,
    min: 1,
    max: 600_000,
    description: 'Takes precedence over `AI_PROVIDER_TIMEOUT_MS`.',
  },
  AI_CLASSIFIER_MAX_RETRIES: {
    group: GROUP,
    kind: 'integer',
    default: 2,
    min: 0,
    max: 5,
    description: 'Further provider calls after one that failed for a temporary reason.',
  },
  AI_CLASSIFIER_CIRCUIT_FAILURES: {
    group: GROUP,
    kind: 'integer',
    default: 5,
    min: 1,
    max: 1_000,
    description: 'Failures in a row after which calls to a provider are suspended.',
  },
  AI_CLASSIFIER_CIRCUIT_COOLDOWN_MS: {
    group: GROUP,
    kind: 'integer',
    default: 30_000,
    min: 1,
    max: 3_600_000,
    description: 'Length of that suspension; one call then probes the provider.',
  },
  AI_CLASSIFIER_STREAMING: {
    group: GROUP,
    kind: 'word',
    default: '0',
    words: ['0', '1'],
    description: '1 = replies are streamed from providers that support it.',
  },
  AI_CLASSIFIER_BATCH_CONCURRENCY: {
    group: GROUP,
    kind: 'integer',
    default: 1,
    min: 1,
    max: 5,
    description: 'Batches (5 questions each) of one job that are sent to the provider at once.',
  },
  AI_CLASSIFIER_MAX_OPEN_JOBS_PER_ACTOR: {
    group: GROUP,
    kind: 'integer',
    default: 3,
    min: 1,
    max: 1_000,
    description: 'Jobs of one actor that may be PENDING or RUNNING at the same time; one more is 429.',
  },
  AI_CLASSIFIER_MAX_OPEN_JOBS_PER_ORGANIZATION: {
    group: GROUP,
    kind: 'integer',
    default: 10,
    min: 1,
    max: 1_000,
    description: 'Jobs of one organization that may be PENDING or RUNNING at the same time; one more is 429.',
  },
  AI_CLASSIFIER_WORKER_ENABLED: {
    group: GROUP,
    kind: 'word',
    default: '0',
    words: ['0', '1'],
    description: '1 = the `classifier` worker runs jobs; 0 = jobs wait.',
  },
  AI_CLASSIFIER_WORKER_CONCURRENCY: {
    group: GROUP,
    kind: 'integer',
    default: 2,
    min: 1,
    max: 64,
    description: 'Jobs that one `classifier` worker runs at once.',
  },
  AI_CLASSIFIER_WORKER_POLL_INTERVAL_MS: {
    group: GROUP,
    kind: 'integer',
    default: 1_000,
    min: 10,
    max: 60_000,
    description: 'Interval at which the `classifier` worker polls for due jobs.',
  },
  AI_CLASSIFIER_WORKER_LEASE_MS: {
    group: GROUP,
    kind: 'integer',
    default: 15_000,
    min: 200,
    max: 600_000,
    description: 'Lease of a claimed job; renewed while it runs. The job of a killed worker goes on after so long.',
  },
  AI_CLASSIFIER_WORKER_MAX_ATTEMPTS: {
    group: GROUP,
    kind: 'integer',
    default: 5,
    min: 1,
    max: 1_000,
    description: 'Attempts of a job before it ends with its partial results.',
  },
  AI_CLASSIFIER_WORKER_RETRY_BASE_DELAY_MS: {
    group: GROUP,
    kind: 'integer',
    default: 3_000,
    min: 1,
    max: 3_600_000,
    description: 'First wait between two attempts of a job; doubles, at most five minutes, with jitter.',
  },
  AI_GENERATION_USAGE_WALLET_ENABLED: {
    group: GROUP,
    kind: 'word',
    default: '0',
    words: ['0', '1'],
    description: '1 = generated questions are charged through the usage and wallet services.',
  },
  AI_GENERATION_SETTLEMENT_WORKER_ENABLED: {
    group: GROUP,
    kind: 'word',
    default: '0',
    words: ['0', '1'],
    description:
      '1 = the `settlement` worker calls usage and wallet service once the provider has answered; 0 = the front door makes these calls. Set the same value for `web` and `settlement`.',
  },
  AI_SETTLEMENT_WAIT_MS: {
    group: GROUP,
    kind: 'integer',
    default: 5_000,
    min: 0,
    max: 60_000,
    description:
      'How long a front door waits for the `settlement` worker before it answers 503 `AI_SETTLEMENT_PENDING`.',
  },
} as const satisfies Record<string, Variable>;
