import t from 'tap';
import { GOOD } from '#testing/models/asked-models.ts';
import { at, failed, good, mockProviders, opened, streamAt } from '#testing/models/mocked-provider.ts';
import { HTTP_PROVIDERS, streamOf } from '#testing/models/provider-replies.ts';

mockProviders(t);

for (const provider of HTTP_PROVIDERS) {
  t.test(`${provider}: a streamed answer equals the answer without streaming`, async (t) => {
    for (const without of [undefined, 'done', 'usage'] as const) {
      const body = streamOf(provider, JSON.stringify(GOOD), without === undefined ? {} : { without });
      streamAt(provider).reply(200, body, { 'content-type': 'text/event-stream; charset=utf-8' });
      const asked = opened(t, provider, { AI_CLASSIFIER_STREAMING: '1' });
      const answer = await asked.ask();
      t.strictSame(answer.json, GOOD);
      const counts =
        without === 'usage' ? { inputTokens: null, outputTokens: null } : { inputTokens: 7, outputTokens: 11 };
      t.strictSame(answer.usage, counts, String(without));
    }
  });

  t.test(`${provider}: a stream without its end is an incomplete answer`, async (t) => {
    streamAt(provider)
      .times(3)
      .reply(200, streamOf(provider, JSON.stringify(GOOD), { without: 'end' }), {
        'content-type': 'text/event-stream',
      });
    const asked = opened(t, provider, { AI_CLASSIFIER_STREAMING: '1' });
    await failed(t, asked, { code: 'AI_PROVIDER_INVALID_RESPONSE', nature: 'passing' });
    t.equal(asked.events.length, 3);
    t.match(await asked.models.status(), { circuit: { consecutiveFailures: 3 } });
  });

  t.test(`${provider}: an error event in a stream fails the call`, async (t) => {
    const overloaded =
      provider === 'anthropic'
        ? `event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"x"}}\n\n`
        : `data: {"error":{"code":503,"type":"server_error","message":"x"},"choices":[]}\n\ndata: [DONE]\n\n`;
    streamAt(provider).reply(200, overloaded, { 'content-type': 'text/event-stream' });
    streamAt(provider).reply(200, streamOf(provider, JSON.stringify(GOOD)), { 'content-type': 'text/event-stream' });
    const asked = opened(t, provider, { AI_CLASSIFIER_STREAMING: '1' });
    t.strictSame((await asked.ask()).json, GOOD);
    t.match(asked.events, [{ outcome: 'failure', errorCode: 'AI_PROVIDER_UNAVAILABLE' }, { outcome: 'success' }]);
  });

  t.test(`${provider}: a stream that was cut counts the tokens that it has reported`, async (t) => {
    const body = streamOf(provider, JSON.stringify(GOOD));
    // Only the end mark of chat completions follows the counts; their last event is damaged instead.
    const isChat = provider !== 'anthropic' && provider !== 'gemini';
    const cut = isChat ? body.replace('[DONE]', '{') : streamOf(provider, JSON.stringify(GOOD), { without: 'end' });
    streamAt(provider).reply(200, cut, { 'content-type': 'text/event-stream' });
    streamAt(provider).reply(200, body, { 'content-type': 'text/event-stream' });
    const asked = opened(t, provider, { AI_CLASSIFIER_STREAMING: '1' });
    t.match((await asked.ask()).usage, { inputTokens: 14 });
    t.match(asked.events, [
      { outcome: 'failure', inputTokens: 7 },
      { outcome: 'success', inputTokens: 7 },
    ]);
  });

  t.test(`${provider}: a JSON answer to a request for a stream is read`, async (t) => {
    streamAt(provider).reply(200, good(provider));
    t.strictSame((await opened(t, provider, { AI_CLASSIFIER_STREAMING: '1' }).ask()).json, GOOD);
  });
}

const asStream = { 'content-type': 'text/event-stream' };
const chunk = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;
const text = JSON.stringify(GOOD);

t.test('an error inside a choice, or as its finish reason, fails the call; an empty error does not', async (t) => {
  const delta = { content: text };
  const cases: [unknown, string | null][] = [
    [{ choices: [{ index: 0, delta, error: { code: 429, message: 'x' } }] }, 'AI_PROVIDER_THROTTLED'],
    [{ choices: [{ index: 0, delta, finish_reason: 'ERROR' }] }, 'AI_PROVIDER_INVALID_RESPONSE'],
    [
      { choices: [{ index: 0, delta, finish_reason: 'stop' }], error: { message: 'x' } },
      'AI_PROVIDER_INVALID_RESPONSE',
    ],
    ...['', {}, false, null].map((error): [unknown, null] => [
      { choices: [{ index: 0, delta, finish_reason: 'STOP' }], error },
      null,
    ]),
    [{ choices: [{ index: 0, delta, finish_reason: 'LENGTH' }] }, 'AI_PROVIDER_INVALID_RESPONSE'],
  ];
  for (const [sent, code] of cases) {
    streamAt('openai').reply(200, `${chunk(sent)}data: [done]\n\n`, asStream);
    const asked = opened(t, 'openai', { AI_CLASSIFIER_STREAMING: '1', AI_CLASSIFIER_MAX_RETRIES: '0' });
    if (code === null) t.strictSame((await asked.ask()).json, GOOD, JSON.stringify(sent));
    else await t.rejects(asked.ask(), { code }, JSON.stringify(sent));
  }
  at('openai').reply(200, { choices: [{ index: 0, finish_reason: 'error', message: { content: text } }] });
  const asked = opened(t, 'openai', { AI_CLASSIFIER_MAX_RETRIES: '0' });
  await failed(t, asked, { code: 'AI_PROVIDER_INVALID_RESPONSE', nature: 'passing' });
});

t.test('a choice of another index is no part of the answer', async (t) => {
  const chunks = [
    { choices: [{ index: 1, delta: { content: '{"other":' } }] },
    {
      choices: [
        { index: 1, delta: { content: '1}' } },
        { index: 0, delta: { content: text } },
      ],
    },
    { choices: [{ index: 1, finish_reason: 'length' }] },
    { choices: [{ index: 0, finish_reason: 'stop' }] },
  ];
  streamAt('openai').reply(200, [...chunks.map(chunk), 'data: [DONE]\n\n'].join(''), asStream);
  t.strictSame((await opened(t, 'openai', { AI_CLASSIFIER_STREAMING: '1' }).ask()).json, GOOD);
  at('openai').reply(200, {
    choices: [
      { index: 1, finish_reason: 'stop', message: { content: '{}' } },
      { index: 0, finish_reason: 'stop', message: { content: text } },
    ],
  });
  t.strictSame((await opened(t, 'openai').ask()).json, GOOD);
});

t.test('anthropic: the input of a tool may come whole when its block begins', async (t) => {
  const events = [
    { type: 'message_start', message: {} },
    { type: 'content_block_start', index: 0, content_block: { type: 'TOOL_USE', name: 'answer', input: GOOD } },
    { type: 'message_delta', delta: { stop_reason: 'tool_use' } },
    { type: 'message_stop' },
  ];
  streamAt('anthropic').reply(200, events.map(chunk).join(''), asStream);
  t.strictSame((await opened(t, 'anthropic', { AI_CLASSIFIER_STREAMING: '1' }).ask()).json, GOOD);
});
