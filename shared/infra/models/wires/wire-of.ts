import type { ProviderName } from '#shared/classifier/provider/names.ts';
import { ANTHROPIC } from './anthropic.ts';
import { CHAT_COMPLETIONS } from './chat-completions.ts';
import { GEMINI } from './gemini.ts';
import type { Wire } from './wire.ts';

/** The protocol that each provider speaks; the mock speaks none. */
export const WIRE_OF: Readonly<Record<Exclude<ProviderName, 'mock'>, Wire>> = {
  local: CHAT_COMPLETIONS,
  openai: CHAT_COMPLETIONS,
  deepseek: CHAT_COMPLETIONS,
  anthropic: ANTHROPIC,
  gemini: GEMINI,
};
