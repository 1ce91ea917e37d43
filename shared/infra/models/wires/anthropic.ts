import { toAnthropic } from '#shared/classifier/lowering.ts';
import { membersOf } from '#shared/kernel/json.ts';
import { countOf, objectsFold, type StreamFold, sumOf, type Wire, type WireAnswer, wordOf } from './wire.ts';

const TOOL = 'answer';
/** `max_tokens`, which the API requires. Every recent model supports this many output tokens. */
const MAX_TOKENS = 8_192;
const FINISHES: ReadonlyMap<string, WireAnswer['finish']> = new Map([
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
      // Other clients take this address with the version, so operators write it with the version.
      url: `${baseUrl.replace(/\/v1$/, '')}/v1/messages`,
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
    const { content, stop_reason } = membersOf(body);
    if (!Array.isArray(content)) return null;
    const blocks = content.map(membersOf);
    const tool = blocks.find(({ type }) => wordOf(type) === 'tool_use');
    const texts = blocks.filter(({ type }) => wordOf(type) === 'text').map((block) => block.text);
    return {
      text: tool === undefined ? texts.filter((text) => typeof text === 'string').join('') : inputOf(tool.input),
      finish: FINISHES.get(wordOf(stop_reason)) ?? 'stop',
    };
  },
  usageOf(body) {
    const counted = membersOf(membersOf(body).usage);
    return {
      // `input_tokens` excludes tokens that were read from or written to the cache.
      inputTokens: sumOf(counted.input_tokens, counted.cache_creation_input_tokens, counted.cache_read_input_tokens),
      outputTokens: countOf(counted.output_tokens),
    };
  },
  fold: foldEvents,
};

/** Returns a tool's input as text. A streamed input is text already; otherwise it is a JSON value. */
function inputOf(input: unknown): string {
  return typeof input === 'string' ? input : (JSON.stringify(input) ?? '');
}

/** A block of a streamed answer, as it was when it began, with the pieces that followed. */
interface Block {
  type: unknown;
  text: string;
  input: unknown;
  pieces: string;
}

function foldEvents(): StreamFold {
  const blocks = new Map<unknown, Block>();
  let usage: Readonly<Record<string, unknown>> = {};
  let stopReason: unknown = null;
  let error: unknown;
  let isStopped = false;

  const blockAt = (index: unknown) => blocks.get(index) ?? { type: 'text', text: '', input: {}, pieces: '' };
  return objectsFold({
    take(event) {
      const { index } = event;
      switch (wordOf(event.type)) {
        case 'message_start':
          usage = { ...usage, ...membersOf(membersOf(event.message).usage) };
          break;
        case 'content_block_start': {
          const { type, text, input } = membersOf(event.content_block);
          blocks.set(index, { type, text: typeof text === 'string' ? text : '', input, pieces: '' });
          break;
        }
        case 'content_block_delta': {
          const { text, partial_json } = membersOf(event.delta);
          const block = blockAt(index);
          if (typeof text === 'string') block.text += text;
          if (typeof partial_json === 'string') block.pieces += partial_json;
          blocks.set(index, block);
          break;
        }
        case 'message_delta':
          stopReason = membersOf(event.delta).stop_reason ?? stopReason;
          // The counts are cumulative.
          usage = { ...usage, ...membersOf(event.usage) };
          break;
        case 'message_stop':
          isStopped = true;
          break;
        case 'error':
          error = event.error ?? {};
          break;
        default:
      }
      return isStopped || error !== undefined;
    },
    body() {
      // An error after the final piece does not invalidate the answer.
      if (error !== undefined && stopReason === null) return { type: 'error', error };
      if (!isStopped && stopReason === null) return null;
      return { content: [...blocks.values()].map(wholeOf), stop_reason: stopReason };
    },
    counted: () => ({ usage }),
  });
}

/** Returns a block as a call without streaming would. Some servers send the whole input when the block begins, and no pieces of it. */
function wholeOf({ type, text, input, pieces }: Block): Readonly<Record<string, unknown>> {
  return { type, text, input: pieces === '' ? input : pieces };
}
