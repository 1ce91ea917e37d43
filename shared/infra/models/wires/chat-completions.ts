import { toOpenAi } from '#shared/classifier/lowering.ts';
import { errorIn, firstOf } from '#shared/classifier/provider/refusal.ts';
import { membersOf } from '#shared/kernel/json.ts';
import {
  countOf,
  objectsFold,
  type StreamFold,
  type Wire,
  type WireAnswer,
  type WireRequest,
  type WireTask,
  wordOf,
} from './wire.ts';

/** DeepSeek's maximum of output tokens. Its default is 4,096. */
const DEEPSEEK_TOKENS = 8_192;
const FINISHES: ReadonlyMap<string, WireAnswer['finish']> = new Map([
  ['length', 'length'],
  ['content_filter', 'filter'],
  ['insufficient_system_resource', 'busy'],
]);

/** OpenAI's chat completions API. DeepSeek and self-hosted servers use the same protocol. */
export const CHAT_COMPLETIONS: Wire = {
  requestIdHeader: 'x-request-id',
  form: ({ provider }) => (provider === 'deepseek' ? 'json' : 'schema'),
  request({ prompt, schema, form, stream }, { provider, model, baseUrl, key }): WireRequest {
    return {
      url: `${baseUrl}/chat/completions`,
      headers: key === null ? {} : { authorization: `Bearer ${key}` },
      body: {
        model,
        messages: [
          { role: 'system', content: prompt.system },
          { role: 'user', content: prompt.user },
        ],
        ...responseFormat(form, schema),
        ...(provider === 'openai' ? { store: false } : {}),
        ...(provider === 'deepseek' ? { max_tokens: DEEPSEEK_TOKENS } : {}),
        ...(stream ? { stream: true, stream_options: { include_usage: true } } : {}),
      },
    };
  },
  read(body) {
    const choice = firstOf(membersOf(body).choices);
    if (!('message' in choice)) return null;
    const message = membersOf(choice.message);
    const refused = typeof message.refusal === 'string' && message.refusal !== '';
    return {
      text: textOf(message.content),
      finish: refused ? 'refusal' : (FINISHES.get(wordOf(choice.finish_reason)) ?? 'stop'),
    };
  },
  usageOf(body) {
    const { prompt_tokens, completion_tokens } = membersOf(membersOf(body).usage);
    return { inputTokens: countOf(prompt_tokens), outputTokens: countOf(completion_tokens) };
  },
  fold: foldChunks,
};

function responseFormat(form: WireTask['form'], schema: WireTask['schema']): Readonly<Record<string, unknown>> {
  if (form === 'prompt') return {};
  if (form === 'json') return { response_format: { type: 'json_object' } };
  const lowered = toOpenAi(schema);
  return { response_format: { type: 'json_schema', json_schema: { name: 'answer', ...lowered } } };
}

/** Returns the text of a content, which is a text or a list of parts. Reasoning is in separate fields and is not read. */
function textOf(content: unknown): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content
    .map((part) => membersOf(part).text)
    .filter((text) => typeof text === 'string')
    .join('');
}

function foldChunks(): StreamFold {
  let [content, refusal] = ['', ''];
  let finish: string | null = null;
  let usage: unknown = null;
  let error: unknown;
  return objectsFold(
    {
      take(chunk) {
        if (chunk.usage !== undefined && chunk.usage !== null) usage = chunk.usage;
        error = errorIn(chunk);
        if (error !== undefined) return true;
        const choice = firstOf(chunk.choices);
        const delta = membersOf(choice.delta);
        content += textOf(delta.content);
        if (typeof delta.refusal === 'string') refusal += delta.refusal;
        // Some servers send an empty `finish_reason` with every chunk.
        if (typeof choice.finish_reason === 'string' && choice.finish_reason !== '') finish = choice.finish_reason;
        return false;
      },
      body(hasEndMark) {
        // An error after the final piece does not invalidate the answer.
        if (error !== undefined && finish === null) return { type: 'error', error };
        if (finish === null && !hasEndMark) return null;
        return { choices: [{ message: { content, refusal }, finish_reason: finish ?? 'stop' }] };
      },
      counted: () => ({ usage }),
    },
    (data) => data.trim().toLowerCase() === '[done]',
  );
}
