import { toAnthropic } from '#shared/classifier/lowering.ts';
import { membersOf } from '#shared/kernel/json-object.ts';
import { countOf, jsonOf, type StreamFold, sumOf, type Wire, type WireAnswer } from './wire.ts';

const TOOL = 'answer';
/** `max_tokens`, which the API requires. Every recent model supports this many output tokens. */
const MAX_TOKENS = 8_192;
const FINISHES: ReadonlyMap<unknown, WireAnswer['finish']> = new Map([
  ['max_tokens', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['refusal', 'refusal'],
]);

/** Anthropic's messages API. The model is forced to call a tool, whose input is the answer. Every model of Anthropic supports this. */
export const ANTHROPIC: Wire = {
  requestIdHeader: 'request-id',
  form: () => 'schema',
  request({ prompt, schema, stream }, { model, baseUrl, key }) {
    return {
      url: `${baseUrl}/v1/messages`,
      headers: { 'anthropic-version': '2023-06-01', ...(key === null ? {} : { 'x-api-key': key }) },
      body: {
        model,
        max_tokens: MAX_TOKENS,
        system: prompt.system,
        messages: [{ role: 'user', content: prompt.user }],
        tools: [{ name: TOOL, description: 'Takes the answer.', input_schema: toAnthropic(schema) }],
        tool_choice: { type: 'tool', name: TOOL, disable_parallel_tool_use: true },
        ...(stream ? { stream: true } : {}),
      },
    };
  },
  read(body) {
    const { content, stop_reason, usage } = membersOf(body);
    if (!Array.isArray(content)) return null;
    const blocks = content.map(membersOf);
    const tool = blocks.find((block) => block.type === 'tool_use');
    const texts = blocks.filter((block) => block.type === 'text').map((block) => block.text);
    const counted = membersOf(usage);
    return {
      text: tool === undefined ? texts.filter((text) => typeof text === 'string').join('') : inputOf(tool.input),
      finish: FINISHES.get(stop_reason) ?? 'stop',
      usage: {
        // `input_tokens` excludes tokens that were read from or written to the cache.
        inputTokens: sumOf(counted.input_tokens, counted.cache_creation_input_tokens, counted.cache_read_input_tokens),
        outputTokens: countOf(counted.output_tokens),
      },
    };
  },
  fold: foldEvents,
};

/** Returns a tool's input as text. A streamed input is text already; otherwise it is a JSON value. */
function inputOf(input: unknown): string {
  return typeof input === 'string' ? input : (JSON.stringify(input) ?? '');
}

function foldEvents(): StreamFold {
  const blocks = new Map<unknown, { type: unknown; text: string; input: string }>();
  let usage: Readonly<Record<string, unknown>> = {};
  let stopReason: unknown = null;
  let error: unknown;
  let stopped = false;

  const blockAt = (index: unknown) => blocks.get(index) ?? { type: 'text', text: '', input: '' };
  return {
    take({ data }) {
      if (stopped || error !== undefined) return;
      const event = membersOf(jsonOf(data));
      const { index } = event;
      switch (event.type) {
        case 'message_start':
          usage = { ...usage, ...membersOf(membersOf(event.message).usage) };
          break;
        case 'content_block_start':
          blocks.set(index, { ...blockAt(index), type: membersOf(event.content_block).type });
          break;
        case 'content_block_delta': {
          const { text, partial_json } = membersOf(event.delta);
          const block = blockAt(index);
          if (typeof text === 'string') block.text += text;
          if (typeof partial_json === 'string') block.input += partial_json;
          blocks.set(index, block);
          break;
        }
        case 'message_delta':
          stopReason = membersOf(event.delta).stop_reason ?? stopReason;
          // The counts are cumulative.
          usage = { ...usage, ...membersOf(event.usage) };
          break;
        case 'message_stop':
          stopped = true;
          break;
        case 'error':
          error = event.error ?? {};
          break;
        default:
      }
    },
    body() {
      if (error !== undefined) return { type: 'error', error };
      if (!stopped && stopReason === null) return null;
      return { content: [...blocks.values()], stop_reason: stopReason, usage };
    },
  };
}
