/** Providers that can be called. `local` is a server of the operator that speaks OpenAI's protocol. */
export const PROVIDERS = ['mock', 'local', 'openai', 'anthropic', 'gemini', 'deepseek'] as const;
export type ProviderName = (typeof PROVIDERS)[number];

/** The environment variable that holds a provider's own key; `mock` needs none, `local` may have the generic one. */
export const KEY_VARIABLE = {
  mock: null,
  local: null,
  openai: 'OPENAI_API_KEY',
  anthropic: 'ANTHROPIC_API_KEY',
  gemini: 'GEMINI_API_KEY',
  deepseek: 'DEEPSEEK_API_KEY',
} as const satisfies Record<ProviderName, string | null>;

/** The variable whose key is sent only to the environment's provider. */
export const GENERIC_KEY_VARIABLE = 'AI_CLASSIFIER_API_KEY';
export type KeyVariable = Exclude<(typeof KEY_VARIABLE)[ProviderName], null> | typeof GENERIC_KEY_VARIABLE;

/** Base URLs of the providers themselves; null = the provider has no address of its own. */
export const OFFICIAL_BASE_URLS: Readonly<Record<ProviderName, string | null>> = {
  mock: null,
  local: null,
  openai: 'https://api.openai.com/v1',
  anthropic: 'https://api.anthropic.com',
  gemini: 'https://generativelanguage.googleapis.com/v1beta',
  deepseek: 'https://api.deepseek.com',
};

/** Providers with a base URL and a model of their own in the environment: `OPENAI_BASE_URL`, `OPENAI_MODEL`, and so on. */
export const PLACED_PROVIDERS = [
  'local',
  'openai',
  'anthropic',
  'gemini',
  'deepseek',
] as const satisfies ProviderName[];
