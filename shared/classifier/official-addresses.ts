import type { ProviderName } from './provider-names.ts';

/** Where the providers themselves answer; null = it has no address of its own. */
export const OFFICIAL_BASE_URLS: Readonly<Record<ProviderName, string | null>> = {
  mock: null,
  local: null,
  openai: 'https://api.openai.com/v1',
  anthropic: 'https://api.anthropic.com',
  gemini: 'https://generativelanguage.googleapis.com/v1beta',
  deepseek: 'https://api.deepseek.com',
};
