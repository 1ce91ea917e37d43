import nock from 'nock';
import t from 'tap';
import { replyOf, streamOf } from '#scripts/sandbox/neighbours/provider-replies.ts';
import { ASKED_AT, GOOD, HTTP_PROVIDERS } from '#testing/models/asked-models.ts';
import { at, failed, good, keepBodies, mockProviders, opened, streamAt } from '#testing/models/mocked-provider.ts';

mockProviders(t);

for (const provider of HTTP_PROVIDERS) {
  t.test(`${provider}: a valid answer is returned with its usage event`, async (t) => {
    at(provider).reply(200, good(provider), { 'x-request-id': 'r-1', 'request-id': 'r-1' });
    const asked = opened(t, provider);
    t.strictSame(await asked.ask(), {
      json: GOOD,
      usage: { inputTokens: 7, outputTokens: 11 },
      provider,
      model: 'test-model',
    });
    t.match(asked.events, [
      {
        provider,
        baseUrl: `${ASKED_AT[provider].origin}${ASKED_AT[provider].base}`,
        model: 'test-model',
        operation: 'question-classification',
        organizationId: 'org-1',
        actorId: 'teacher-1',
        requestId: 'req-1',
        jobId: null,
        batchIndex: null,
        inputTokens: 7,
        outputTokens: 11,
        attempt: 1,
        retryWaitMs: 0,
        circuit: 'closed',
        httpStatus: 200,
        outcome: 'success',
        errorCode: null,
        promptVersion: 'test-1',
        providerRequestId: provider === 'gemini' ? null : 'r-1',
      },
    ]);
    t.equal(asked.events.length, 1);
  });

  t.test(`${provider}: the token counts of an answer without usage are null, not 0`, async (t) => {
    const { usage: _usage, usageMetadata: _counts, ...body } = good(provider);
    at(provider).reply(200, body);
    const asked = opened(t, provider);
    t.match((await asked.ask()).usage, { inputTokens: null, outputTokens: null });
    t.match(asked.events, [{ inputTokens: null, outputTokens: null }]);
  });

  t.test(`${provider}: usage is the sum of what the calls report, passing faults too`, async (t) => {
    const { usage, usageMetadata, ...uncounted } = good(provider);
    const counts = provider === 'gemini' ? { usageMetadata } : { usage };
    const error = { code: 503, status: 'UNAVAILABLE', type: 'overloaded_error' };
    at(provider).reply(200, { error, ...counts });
    at(provider).reply(503, {});
    at(provider).reply(200, uncounted as nock.Body);
    const asked = opened(t, provider);
    t.match((await asked.ask()).usage, { inputTokens: 7, outputTokens: 11 });
    t.match(asked.events, [{ inputTokens: 7 }, { inputTokens: null }, { inputTokens: null, outcome: 'success' }]);
    at(provider).reply(200, counts);
    at(provider).reply(200, good(provider));
    t.match((await asked.ask()).usage, { inputTokens: 14, outputTokens: 22 });
    t.match(asked.events.slice(3), [{ errorCode: 'AI_PROVIDER_INVALID_RESPONSE', inputTokens: 7 }, { inputTokens: 7 }]);
  });

  t.test(`${provider}: an answer in a code fence or after blank lines is read`, async (t) => {
    at(provider).reply(200, replyOf(provider, `\`\`\`json\n${JSON.stringify(GOOD)}\n\`\`\``));
    at(provider).reply(200, `\n\n  \n${JSON.stringify(good(provider))}`);
    const asked = opened(t, provider);
    t.strictSame((await asked.ask()).json, GOOD);
    t.strictSame((await asked.ask()).json, GOOD);
  });

  t.test(`${provider}: an answer of a hostile shape is treated as unfit`, async (t) => {
    const deep = '['.repeat(100_000) + ']'.repeat(100_000);
    const odd = { toString: null, valueOf: null };
    for (const [status, body, calls] of [
      [400, deep, 1],
      [200, deep, 3],
      [200, `{"content":[{"type":"tool_use","input":${deep}}],"choices":[{"message":{"content":"x"}}]}`, 3],
      [200, { choices: [{ message: { content: 'x' }, finish_reason: odd }], content: [], stop_reason: odd }, null],
      [200, { choices: [{ message: { content: 'x' }, finish_reason: 'constructor' }], content: [] }, null],
      [200, { error: { type: 'constructor' } }, 3],
    ] as const) {
      at(provider).times(9).reply(status, body);
      const asked = opened(t, provider);
      const failure = await failed(t, asked, {
        code: /^AI_PROVIDER_/ as never,
        nature: /^(refused|passing)$/ as never,
      });
      t.notMatch(failure.message, /function|undefined/);
      if (calls !== null) t.equal(asked.events.length, calls);
      nock.cleanAll();
    }
  });

  t.test(`${provider}: a cut or filtered answer is not repaired`, async (t) => {
    for (const end of ['length', 'filter'] as const) {
      at(provider)
        .times(2)
        .reply(200, replyOf(provider, '{"subject": "to', end));
      const asked = opened(t, provider);
      await failed(t, asked, { code: 'AI_PROVIDER_INVALID_RESPONSE', nature: 'refused' });
      t.equal(asked.events.length, 1);
      t.match(asked.events, [{ inputTokens: 7, outputTokens: 11, errorCode: 'AI_PROVIDER_INVALID_RESPONSE' }]);
      nock.cleanAll();
    }
  });

  t.test(`${provider}: an unfit answer is repaired once`, async (t) => {
    const bodies: string[] = [];
    const unfit = replyOf(provider, JSON.stringify({ subject: '', confidence: 2 }));
    keepBodies(at(provider).reply(200, unfit as nock.Body), bodies);
    keepBodies(at(provider).reply(200, good(provider) as nock.Body), bodies);
    const asked = opened(t, provider);
    const answer = await asked.ask();
    t.strictSame(answer.json, GOOD);
    t.strictSame(answer.usage, { inputTokens: 14, outputTokens: 22 }, 'the tokens of both calls');
    t.match(bodies[1], 'must be at most 1', 'the repair prompt states the fault');
    t.notMatch(bodies[0], 'must be at most 1');
    t.match(
      asked.events.map((event) => [event.attempt, event.outcome, event.errorCode, event.inputTokens]),
      [
        [1, 'failure', 'AI_PROVIDER_INVALID_RESPONSE', 7],
        [2, 'success', null, 7],
      ],
    );
    for (const text of ['', 'Sorry, no.', '{"subject": "x"}', '[]']) {
      at(provider).times(3).reply(200, replyOf(provider, text));
      const again = opened(t, provider);
      await failed(t, again, { code: 'AI_PROVIDER_INVALID_RESPONSE', nature: 'refused' });
      t.equal(again.events.length, 2, `${text}: repaired once and no more`);
      nock.cleanAll();
    }
  });
}

t.test('of a list that is unfit after its repair, the items that fit are the answer', async (t) => {
  const item = { type: 'object', required: ['id', 'score'], properties: { score: { type: 'number', maximum: 1 } } };
  const task = { schema: { type: 'object', properties: { items: { type: 'array', items: item } } }, list: 'items' };
  const answers = (...items: unknown[]) =>
    at('openai')
      .times(2)
      .reply(200, replyOf('openai', JSON.stringify({ items })));
  const fit = { id: 'a', score: 1 };
  answers({ id: 'b', score: 2 }, fit, { id: '\ud800', score: 1 });
  const asked = opened(t, 'openai');
  t.strictSame((await asked.ask(task)).json, { items: [fit] });
  t.equal(asked.events.length, 2);
  answers({ id: 'b', score: 2 });
  await t.rejects(opened(t, 'openai').ask(task), { code: 'AI_PROVIDER_INVALID_RESPONSE' });
  answers(fit, fit);
  const senseFaults = (json: unknown) =>
    (json as { items: unknown[] }).items.length > 1 ? [{ path: '/items/1', message: 'must differ' }] : [];
  await t.rejects(opened(t, 'openai').ask({ ...task, senseFaults }), { message: /\/items\/1 must differ/ });
});

t.test('gemini: a blocked prompt without a candidate is a filtered answer', async (t) => {
  at('gemini')
    .times(2)
    .reply(200, { promptFeedback: { blockReason: 'SAFETY' }, usageMetadata: { promptTokenCount: 3 } });
  const asked = opened(t, 'gemini');
  await failed(t, asked, { code: 'AI_PROVIDER_INVALID_RESPONSE', nature: 'refused' });
  t.match(asked.events, [{ inputTokens: 3, outputTokens: null }]);
});

t.test('openai: a text in the refusal field is a refusal', async (t) => {
  const message = { role: 'assistant', content: null, refusal: 'I cannot.' };
  at('openai')
    .times(2)
    .reply(200, { choices: [{ message, finish_reason: 'stop' }] });
  const asked = opened(t, 'openai');
  await failed(t, asked, { code: 'AI_PROVIDER_INVALID_RESPONSE', nature: 'refused' });
  t.equal(asked.events.length, 1);
});

t.test(
  'local: a server without schema support is called for JSON, then without a form, and the form is remembered',
  async (t) => {
    const bodies: string[] = [];
    const error = {
      message: "response_format type 'json_schema' is not supported",
      code: 400,
      type: 'BadRequestError',
    };
    keepBodies(at('local').twice().reply(400, { error }), bodies);
    keepBodies(
      at('local')
        .twice()
        .reply(200, good('local') as nock.Body),
      bodies,
    );
    const asked = opened(t, 'local');
    t.strictSame((await asked.ask()).json, GOOD);
    await asked.ask();
    const formats = bodies.map((body) => JSON.parse(body).response_format?.type);
    t.strictSame(formats, ['json_schema', 'json_object', undefined, undefined]);
  },
);

t.test('an optional field that is null is treated as missing', async (t) => {
  at('openai').reply(200, replyOf('openai', JSON.stringify({ ...GOOD, note: null })));
  t.strictSame((await opened(t, 'openai').ask()).json, GOOD);
});

const asStream = { 'content-type': 'text/event-stream' };
const chunk = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;
const goodText = JSON.stringify(GOOD);

for (const provider of HTTP_PROVIDERS) {
  t.test(`${provider}: a streamed answer equals the answer without streaming`, async (t) => {
    for (const without of [undefined, 'done', 'usage'] as const) {
      const body = streamOf(provider, goodText, without === undefined ? {} : { without });
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
      .reply(200, streamOf(provider, goodText, { without: 'end' }), asStream);
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
    streamAt(provider).reply(200, overloaded, asStream);
    streamAt(provider).reply(200, streamOf(provider, goodText), asStream);
    const asked = opened(t, provider, { AI_CLASSIFIER_STREAMING: '1' });
    t.strictSame((await asked.ask()).json, GOOD);
    t.match(asked.events, [{ outcome: 'failure', errorCode: 'AI_PROVIDER_UNAVAILABLE' }, { outcome: 'success' }]);
  });

  t.test(`${provider}: a stream that was cut counts the tokens that it has reported`, async (t) => {
    const body = streamOf(provider, goodText);
    // Only the end mark of chat completions follows the counts; their last event is damaged instead.
    const isChat = provider !== 'anthropic' && provider !== 'gemini';
    const cut = isChat ? body.replace('[DONE]', '{') : streamOf(provider, goodText, { without: 'end' });
    streamAt(provider).reply(200, cut, asStream);
    streamAt(provider).reply(200, body, asStream);
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

t.test('an error inside a choice, or as its finish reason, fails the call; an empty error does not', async (t) => {
  const delta = { content: goodText };
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
  at('openai').reply(200, { choices: [{ index: 0, finish_reason: 'error', message: { content: goodText } }] });
  const asked = opened(t, 'openai', { AI_CLASSIFIER_MAX_RETRIES: '0' });
  await failed(t, asked, { code: 'AI_PROVIDER_INVALID_RESPONSE', nature: 'passing' });
});

t.test('a choice of another index is no part of the answer', async (t) => {
  const chunks = [
    { choices: [{ index: 1, delta: { content: '{"other":' } }] },
    {
      choices: [
        { index: 1, delta: { content: '1}' } },
        { index: 0, delta: { content: goodText } },
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
      { index: 0, finish_reason: 'stop', message: { content: goodText } },
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
