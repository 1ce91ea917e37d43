import type { ProviderName } from '#shared/classifier/provider/names.ts';

export type HttpProvider = Exclude<ProviderName, 'mock'>;

/** Provider-independent reason why an answer ended. */
type FinishReason = 'stop' | 'length' | 'filter';

const CHAT_ENDS = { stop: 'stop', length: 'length', filter: 'content_filter' } as const;
const ANTHROPIC_ENDS = { stop: 'tool_use', length: 'max_tokens', filter: 'refusal' } as const;
const GEMINI_ENDS = { stop: 'STOP', length: 'MAX_TOKENS', filter: 'SAFETY' } as const;

/** Returns the body of a 200 reply with this text, 7 input tokens and 11 output tokens. */
export function replyOf(provider: HttpProvider, text: string, end: FinishReason = 'stop'): Record<string, unknown> {
  if (provider === 'anthropic') {
    return {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      model: 'test-model',
      stop_sequence: null,
      content: [
        { type: 'thinking', thinking: 'not this' },
        { type: 'tool_use', id: 'toolu_1', name: 'answer', input: jsonOr(text) },
      ],
      stop_reason: ANTHROPIC_ENDS[end],
      usage: { input_tokens: 4, cache_creation_input_tokens: 1, cache_read_input_tokens: 2, output_tokens: 11 },
    };
  }
  if (provider === 'gemini') {
    return {
      candidates: [
        {
          content: { role: 'model', parts: [{ text: 'not this', thought: true }, { text }] },
          finishReason: GEMINI_ENDS[end],
        },
      ],
      usageMetadata: { promptTokenCount: 7, candidatesTokenCount: 5, thoughtsTokenCount: 6, totalTokenCount: 18 },
      modelVersion: 'test-model',
    };
  }
  return {
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1,
    model: 'test-model',
    choices: [
      {
        index: 0,
        finish_reason: CHAT_ENDS[end],
        logprobs: null,
        message: { role: 'assistant', content: text, refusal: null, reasoning_content: 'not this' },
      },
    ],
    usage: { prompt_tokens: 7, completion_tokens: 11, total_tokens: 18 },
  };
}

/** Returns the same reply as a stream of events, with the text in pieces. `without` omits the end, the `[DONE]` line or the usage. */
export function streamOf(
  provider: HttpProvider,
  text: string,
  options: { end?: FinishReason; without?: 'end' | 'done' | 'usage' } = {},
): string {
  const { end = 'stop', without } = options;
  const pieces = text.match(/[\s\S]{1,5}/gu) ?? [];
  const unlessUsage = (counts: object) => (without === 'usage' ? {} : counts);
  const last = (...events: string[]) => (without === 'end' ? [] : events);
  if (provider === 'anthropic') {
    const tool = { type: 'tool_use', id: 'toolu_1', name: 'answer', input: {} };
    return [
      event('message_start', {
        message: { usage: unlessUsage({ input_tokens: 4, cache_read_input_tokens: 3, output_tokens: 1 }) },
      }),
      event('content_block_start', { index: 0, content_block: tool }),
      event('ping', {}),
      ...pieces.map((piece) =>
        event('content_block_delta', { index: 0, delta: { type: 'input_json_delta', partial_json: piece } }),
      ),
      event('content_block_stop', { index: 0 }),
      ...last(
        event('message_delta', {
          delta: { stop_reason: ANTHROPIC_ENDS[end] },
          usage: unlessUsage({ output_tokens: 11 }),
        }),
        event('message_stop', {}),
      ),
    ].join('');
  }
  if (provider === 'gemini') {
    const chunks = pieces.map((piece, index) => {
      const isLast = index === pieces.length - 1 && without !== 'end';
      const content = { parts: [{ text: piece }] };
      const counts = { promptTokenCount: 7, candidatesTokenCount: isLast ? 5 : 1, thoughtsTokenCount: 6 };
      return data({
        candidates: [{ content, ...(isLast ? { finishReason: GEMINI_ENDS[end] } : {}) }],
        ...unlessUsage({ usageMetadata: counts }),
      });
    });
    return chunks.join('');
  }
  const choice = (delta: object, finish_reason: string | null) =>
    data({ choices: [{ index: 0, delta, finish_reason }] });
  const usage = data({ choices: [], usage: { prompt_tokens: 7, completion_tokens: 11 } });
  return [
    ': keep-alive\n\n',
    ...pieces.map((content) => choice({ content }, null)),
    ...last(choice({}, CHAT_ENDS[end]), without === 'usage' ? '' : usage, without === 'done' ? '' : 'data: [DONE]\n\n'),
  ].join('');
}

/** Returns the body of a refusal in the provider's own format. */
export function refusalBody(provider: HttpProvider, word: string, message = 'no'): Record<string, unknown> {
  if (provider === 'anthropic') return { type: 'error', error: { type: word, message }, request_id: 'req_1' };
  if (provider === 'gemini') return { error: { code: 400, status: word, message, details: [] } };
  return { error: { message, type: word, param: null, code: word } };
}

function event(type: string, fields: Record<string, unknown>): string {
  return `event: ${type}\n${data({ type, ...fields })}`;
}

function data(value: unknown): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}

function jsonOr(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
