import { mockAnswer } from '#shared/classifier/mock.ts';
import { readAnswer } from '#shared/classifier/tasks/read-answer.ts';
import { membersOf } from '#shared/kernel/json.ts';
import { type HttpProvider, refusalBody, replyOf, streamOf } from './provider-replies.ts';
import { closed, type NeighbourCall, type Reply, type Route, type Schema, type StandIn, TEXT } from './stand-in.ts';

const MESSAGES = {
  type: 'array',
  minItems: 1,
  items: closed({ role: { enum: ['system', 'user'] }, content: TEXT }),
} as const;
const ANY: Schema = { type: 'object' };
const FLAG: Schema = { type: 'boolean' };
const PARTS = { type: 'array', minItems: 1, items: closed({ text: TEXT }) };

/** The part of a request that the answer depends on. */
interface Asked {
  system: string;
  user: string;
  /** The schema beside the prompt; undefined if the prompt contains it. */
  schema: unknown;
  streams: boolean;
}

/** One protocol of a model provider, as its real server would check it. */
interface Protocol {
  provider: HttpProvider;
  path: RegExp;
  shape: Schema;
  // biome-ignore lint/suspicious/noExplicitAny: `shape` has checked the body
  read(body: any, call: NeighbourCall): Asked;
}

const PROTOCOLS: readonly Protocol[] = [
  {
    provider: 'local',
    path: /\/chat\/completions$/,
    shape: closed(
      { model: TEXT, messages: MESSAGES },
      { response_format: ANY, store: FLAG, max_tokens: { type: 'integer' }, stream: FLAG, stream_options: ANY },
    ),
    read: ({ messages, response_format, stream }) => ({
      system: saidBy('system', messages),
      user: saidBy('user', messages),
      schema: response_format?.json_schema?.schema,
      streams: stream === true,
    }),
  },
  {
    provider: 'anthropic',
    path: /\/v1\/messages$/,
    shape: closed(
      {
        model: TEXT,
        max_tokens: { type: 'integer', minimum: 1 },
        system: TEXT,
        messages: MESSAGES,
        tools: { type: 'array', minItems: 1, items: closed({ name: TEXT, description: TEXT, input_schema: ANY }) },
        tool_choice: ANY,
      },
      { stream: FLAG },
    ),
    read: ({ system, messages, tools, stream }) => ({
      system,
      user: saidBy('user', messages),
      schema: tools[0].input_schema,
      streams: stream === true,
    }),
  },
  {
    provider: 'gemini',
    path: /:(?:generateContent|streamGenerateContent)$/,
    shape: closed({
      systemInstruction: closed({ parts: PARTS }),
      contents: { type: 'array', minItems: 1, items: closed({ role: { const: 'user' }, parts: PARTS }) },
      generationConfig: closed({ responseMimeType: { const: 'application/json' } }, { responseSchema: ANY }),
    }),
    read: ({ systemInstruction, contents, generationConfig }, { path }) => ({
      system: textOf(systemInstruction.parts, 'text'),
      user: textOf(contents[0].parts, 'text'),
      schema: generationConfig.responseSchema,
      streams: path.endsWith(':streamGenerateContent'),
    }),
  },
];

/** Opens a model provider that speaks each protocol. It answers as the mock does: always the same, and valid for the schema. */
export function modelsStandIn(): StandIn {
  let [answers, unreadable] = [0, 0];

  function answerAs(provider: HttpProvider, asked: Asked): Reply {
    const json = answerTo(asked);
    if (json === undefined) {
      unreadable += 1;
      const body = refusalBody(provider, 'invalid_request_error', 'the prompt names neither data nor schema');
      return { status: 400, body };
    }
    answers += 1;
    const text = JSON.stringify(json);
    if (!asked.streams) return { status: 200, body: replyOf(provider, text) };
    return { status: 200, headers: { 'content-type': 'text/event-stream' }, body: streamOf(provider, text) };
  }

  return {
    routes: PROTOCOLS.map(({ provider, path, shape, read }): Route => {
      return {
        method: 'POST',
        path,
        senders: null,
        shape,
        answer: (call) => answerAs(provider, read(call.body, call)),
      };
    }),
    state: () => ({ answers, unreadable }),
    forget() {
      [answers, unreadable] = [0, 0];
    },
  };
}

/** Returns an answer that follows the data and the schema of a prompt; undefined if it lacks one of them. */
function answerTo({ system, user, schema }: Asked): unknown {
  const [, , data] = /^BEGIN DATA ([0-9a-f]+)\n([\s\S]*?)\nEND DATA \1$/m.exec(user) ?? [];
  const [, inPrompt] = /fit this JSON Schema:\n(.*)$/m.exec(system) ?? [];
  const shape = schema ?? (inPrompt === undefined ? undefined : JSON.parse(inPrompt));
  if (data === undefined || shape === undefined) return undefined;
  const wanted = membersOf(shape);
  const json = mockAnswer({ kind: 'classify', data: JSON.parse(data), schema: wanted });
  // A strict schema requires optional fields as nullable ones; a null is removed again.
  return readAnswer(JSON.stringify(json), wanted);
}

function saidBy(role: string, messages: readonly Record<string, string>[]): string {
  return textOf(
    messages.filter((message) => message.role === role),
    'content',
  );
}

function textOf(parts: readonly Record<string, string>[], field: string): string {
  return parts.map((part) => part[field] ?? '').join('\n');
}
