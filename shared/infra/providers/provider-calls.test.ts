import nock from 'nock';
import t, { type Test } from 'tap';
import { type AskedModels, askedModels, GOOD, SENTINEL_KEY, settingsFor } from '../../testing/asked-models.ts';
import {
  ASKED_AT,
  HTTP_PROVIDERS,
  type HttpProvider,
  refusalBody,
  replyOf,
  streamOf,
} from '../../testing/provider-replies.ts';

nock.disableNetConnect();
t.teardown(() => nock.restore());
t.afterEach(() => nock.cleanAll());

const at = (provider: HttpProvider) => nock(ASKED_AT[provider].origin).post(ASKED_AT[provider].path);
/** Writes down what these interceptors are asked with: a function as a reply never gets an answer out of a patched fetch. */
function keepBodies(scope: nock.Scope, bodies: string[]): void {
  scope.on('request', (_request, _interceptor, body) => void bodies.push(String(body)));
}
const good = (provider: HttpProvider) => replyOf(provider, JSON.stringify(GOOD));
const opened = (t: Test, provider: HttpProvider, env: NodeJS.ProcessEnv = {}) =>
  askedModels(t, settingsFor(provider, env));

/** Fails unless the ask fails like this; gives the failure. */
async function failed(t: Test, asked: AskedModels, expected: { code: string; nature: string }) {
  const failure = await asked.ask().then(
    () => t.fail('there was an answer'),
    (error: Error & { retryAfterMs?: number | null }) => error,
  );
  t.match(failure, expected);
  t.notMatch(JSON.stringify([failure, String(failure), asked.events, asked.log.lines]), SENTINEL_KEY);
  return failure as Error & { retryAfterMs: number | null };
}

for (const provider of HTTP_PROVIDERS) {
  t.test(`${provider}: an answer`, async (t) => {
    at(provider).reply(200, good(provider), { 'x-request-id': 'r-1', 'request-id': 'r-1' });
    const asked = opened(t, provider);
    t.strictSame(await asked.ask(), {
      ...{ json: GOOD, usage: { inputTokens: 7, outputTokens: 11 } },
      ...{ provider, model: 'test-model' },
    });
    t.match(asked.events, [
      {
        ...{ provider, baseUrl: ASKED_AT[provider].origin, model: 'test-model', operation: 'question-classification' },
        ...{ organizationId: 'org-1', actorId: 'teacher-1', requestId: 'req-1', jobId: null, batchIndex: null },
        ...{ inputTokens: 7, outputTokens: 11, attempt: 1, retryWaitMs: 0, circuit: 'closed', httpStatus: 200 },
        ...{ outcome: 'success', errorCode: null, promptVersion: 'test-1' },
        providerRequestId: provider === 'gemini' ? null : 'r-1',
      },
    ]);
    t.equal(asked.events.length, 1);
  });

  t.test(`${provider}: an answer without counts has none, which is not 0`, async (t) => {
    const { usage: _usage, usageMetadata: _counts, ...body } = good(provider);
    at(provider).reply(200, body);
    const asked = opened(t, provider);
    t.match((await asked.ask()).usage, { inputTokens: null, outputTokens: null });
    t.match(asked.events, [{ inputTokens: null, outputTokens: null }]);
  });

  t.test(`${provider}: an answer in a fence, and one with blank lines before it`, async (t) => {
    at(provider).reply(200, replyOf(provider, `\`\`\`json\n${JSON.stringify(GOOD)}\n\`\`\``));
    at(provider).reply(200, `\n\n  \n${JSON.stringify(good(provider))}`);
    const asked = opened(t, provider);
    t.strictSame((await asked.ask()).json, GOOD);
    t.strictSame((await asked.ask()).json, GOOD);
  });

  t.test(`${provider}: refusals`, async (t) => {
    const cases: [number, unknown, string, string, number][] = [
      [400, refusalBody(provider, 'invalid_request_error'), 'AI_PROVIDER_INVALID_RESPONSE', 'refused', 1],
      [401, refusalBody(provider, 'authentication_error'), 'AI_PROVIDER_UNAVAILABLE', 'refused', 1],
      [402, refusalBody(provider, 'billing_error'), 'AI_PROVIDER_QUOTA', 'refused', 1],
      [403, refusalBody(provider, 'permission_error'), 'AI_PROVIDER_UNAVAILABLE', 'refused', 1],
      [404, refusalBody(provider, 'not_found_error'), 'AI_PROVIDER_INVALID_RESPONSE', 'refused', 1],
      [408, '', 'AI_PROVIDER_TIMEOUT', 'passing', 3],
      [409, refusalBody(provider, 'conflict'), 'AI_PROVIDER_UNAVAILABLE', 'passing', 3],
      [413, '<html>too large</html>', 'AI_PROVIDER_INVALID_RESPONSE', 'refused', 1],
      [422, refusalBody(provider, 'unprocessable'), 'AI_PROVIDER_INVALID_RESPONSE', 'refused', 1],
      [429, refusalBody(provider, 'rate_limit_error'), 'AI_PROVIDER_THROTTLED', 'passing', 3],
      [500, refusalBody(provider, 'api_error'), 'AI_PROVIDER_UNAVAILABLE', 'passing', 3],
      [503, '<html>', 'AI_PROVIDER_UNAVAILABLE', 'passing', 3],
      [529, refusalBody(provider, 'overloaded_error'), 'AI_PROVIDER_UNAVAILABLE', 'passing', 3],
    ];
    for (const [status, body, code, nature, calls] of cases) {
      at(provider)
        .times(9)
        .reply(status, body as nock.Body);
      const asked = opened(t, provider);
      await failed(t, asked, { code, nature });
      t.equal(asked.events.length, calls, `${status}: so many calls`);
      t.ok(asked.events.every((event) => event.httpStatus === status && event.errorCode === code));
      t.ok(asked.events.every((event) => event.outcome === 'failure'));
      nock.cleanAll();
    }
  });

  t.test(`${provider}: a quota that is used up is not asked about again`, async (t) => {
    const bodies = [
      refusalBody(provider, 'insufficient_quota'),
      { error: { message: 'x', type: 'x', code: 'organization_usage_limit_exceeded' } },
      { type: 'error', error: { type: 'rate_limit_error', details: { error_code: 'enforced_spend_limit_reached' } } },
    ];
    for (const body of bodies) {
      at(provider)
        .times(2)
        .reply(429, body as nock.Body);
      const asked = opened(t, provider, { AI_CLASSIFIER_CIRCUIT_FAILURES: '1' });
      await failed(t, asked, { code: 'AI_PROVIDER_QUOTA', nature: 'refused' });
      t.equal(asked.events.length, 1);
      t.match(await asked.models.status(), { circuit: { state: 'closed', consecutiveFailures: 0 } });
      nock.cleanAll();
    }
  });

  t.test(`${provider}: what a 200 may be instead of an answer`, async (t) => {
    const error =
      provider === 'gemini' ? { error: { code: 503, status: 'UNAVAILABLE' } } : { error: { type: 'server_error' } };
    for (const body of ['{"choices":[{"mess', '', '<html>', {}, [], 'null', error]) {
      at(provider)
        .times(2)
        .reply(200, body as nock.Body);
      at(provider).reply(200, good(provider));
      const asked = opened(t, provider);
      t.strictSame((await asked.ask()).json, GOOD, JSON.stringify(body));
      t.equal(asked.events.length, 3, 'asked again');
      nock.cleanAll();
    }
  });

  t.test(`${provider}: an answer that was cut or filtered is not repaired`, async (t) => {
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

  t.test(`${provider}: an answer that does not fit is repaired once`, async (t) => {
    const bodies: string[] = [];
    const unfit = replyOf(provider, JSON.stringify({ subject: '', confidence: 2 }));
    keepBodies(at(provider).reply(200, unfit as nock.Body), bodies);
    keepBodies(at(provider).reply(200, good(provider) as nock.Body), bodies);
    const asked = opened(t, provider);
    t.strictSame((await asked.ask()).json, GOOD);
    t.match(bodies[1], 'must be at most 1', 'it is told what did not fit');
    t.notMatch(bodies[0], 'must be at most 1');
    t.match(
      asked.events.map((event) => [event.attempt, event.outcome, event.errorCode]),
      [
        [1, 'failure', 'AI_PROVIDER_INVALID_RESPONSE'],
        [2, 'success', null],
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

  t.test(`${provider}: streamed, it is the same answer`, async (t) => {
    for (const without of [undefined, 'done', 'usage'] as const) {
      const body = streamOf(provider, JSON.stringify(GOOD), without === undefined ? {} : { without });
      nock(ASKED_AT[provider].origin)
        .post(ASKED_AT[provider].streamPath)
        .reply(200, body, { 'content-type': 'text/event-stream; charset=utf-8' });
      const asked = opened(t, provider, { AI_CLASSIFIER_STREAMING: '1' });
      const answer = await asked.ask();
      t.strictSame(answer.json, GOOD);
      const counts =
        without === 'usage' ? { inputTokens: null, outputTokens: null } : { inputTokens: 7, outputTokens: 11 };
      t.strictSame(answer.usage, counts, String(without));
    }
  });

  t.test(`${provider}: a stream without its end is no answer`, async (t) => {
    nock(ASKED_AT[provider].origin)
      .post(ASKED_AT[provider].streamPath)
      .times(3)
      .reply(200, streamOf(provider, JSON.stringify(GOOD), { without: 'end' }), {
        'content-type': 'text/event-stream',
      });
    const asked = opened(t, provider, { AI_CLASSIFIER_STREAMING: '1' });
    await failed(t, asked, { code: 'AI_PROVIDER_INVALID_RESPONSE', nature: 'passing' });
    t.equal(asked.events.length, 3);
    t.match(await asked.models.status(), { circuit: { consecutiveFailures: 3 } });
  });

  t.test(`${provider}: an error inside of a stream is one`, async (t) => {
    const overloaded =
      provider === 'anthropic'
        ? `event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"x"}}\n\n`
        : `data: {"error":{"code":503,"type":"server_error","message":"x"},"choices":[]}\n\ndata: [DONE]\n\n`;
    const path = ASKED_AT[provider].streamPath;
    nock(ASKED_AT[provider].origin).post(path).reply(200, overloaded, { 'content-type': 'text/event-stream' });
    nock(ASKED_AT[provider].origin)
      .post(path)
      .reply(200, streamOf(provider, JSON.stringify(GOOD)), { 'content-type': 'text/event-stream' });
    const asked = opened(t, provider, { AI_CLASSIFIER_STREAMING: '1' });
    t.strictSame((await asked.ask()).json, GOOD);
    t.match(asked.events, [{ outcome: 'failure', errorCode: 'AI_PROVIDER_UNAVAILABLE' }, { outcome: 'success' }]);
  });

  t.test(`${provider}: a stream that was asked for and came as JSON is read all the same`, async (t) => {
    nock(ASKED_AT[provider].origin).post(ASKED_AT[provider].streamPath).reply(200, good(provider));
    t.strictSame((await opened(t, provider, { AI_CLASSIFIER_STREAMING: '1' }).ask()).json, GOOD);
  });

  t.test(`${provider}: the wait before the next call`, async (t) => {
    const soon = new Date(Date.UTC(2026, 0, 1) + 4_000).toUTCString();
    const retryInfo = {
      error: { details: [{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '34.4s' }] },
    };
    const cases: [Record<string, string>, unknown, number][] = [
      [{}, {}, 250],
      [{ 'retry-after': '1' }, {}, 1_000],
      [{ 'retry-after': '1.5' }, {}, 1_500],
      [{ 'retry-after-ms': '20', 'retry-after': '9' }, {}, 20],
      [{ 'x-ms-retry-after-ms': '30' }, {}, 30],
      [{ 'retry-after': soon }, {}, 4_000],
      [{ 'retry-after': soon, date: new Date(Date.UTC(2026, 0, 1) + 1_000).toUTCString() }, {}, 3_000],
      [{ 'retry-after': 'soon' }, {}, 250],
      [{}, retryInfo, 34_400],
      [{}, [retryInfo], 34_400],
    ];
    for (const [headers, body, waitMs] of cases) {
      at(provider).reply(429, body as nock.Body, headers);
      at(provider).reply(200, good(provider));
      const asked = opened(t, provider);
      await asked.ask();
      t.strictSame(asked.waits, [waitMs], JSON.stringify([headers, body]));
      t.equal(asked.events[1]?.retryWaitMs, waitMs);
    }
  });

  t.test(`${provider}: who asks for more than a minute is left alone at once`, async (t) => {
    at(provider).times(2).reply(429, {}, { 'retry-after': '3600' });
    const asked = opened(t, provider);
    const failure = await failed(t, asked, { code: 'AI_PROVIDER_THROTTLED', nature: 'passing' });
    t.equal(failure.retryAfterMs, 3_600_000);
    t.strictSame([asked.events.length, asked.waits], [1, []]);
    asked.pass(600_000);
    const next = await failed(t, asked, { code: 'AI_PROVIDER_THROTTLED', nature: 'open' });
    t.equal(next.retryAfterMs, 3_000_000, 'and nobody asks meanwhile');
    t.equal(asked.events.length, 1);
    t.match(await asked.models.status(), { circuit: { state: 'closed', consecutiveFailures: 0 } });
  });

  t.test(`${provider}: the provider's own word on trying again`, async (t) => {
    at(provider).times(2).reply(500, {}, { 'x-should-retry': 'false' });
    const asked = opened(t, provider);
    await failed(t, asked, { code: 'AI_PROVIDER_UNAVAILABLE', nature: 'passing' });
    t.equal(asked.events.length, 1);
    nock.cleanAll();
    at(provider).reply(400, {}, { 'x-should-retry': 'true' });
    at(provider).reply(200, good(provider));
    t.strictSame((await opened(t, provider).ask()).json, GOOD);
  });

  t.test(`${provider}: a connection that breaks`, async (t) => {
    at(provider)
      .times(2)
      .replyWithError(Object.assign(new Error('reset'), { code: 'ECONNRESET' }));
    at(provider).reply(200, good(provider));
    const asked = opened(t, provider);
    t.strictSame((await asked.ask()).json, GOOD);
    t.strictSame(asked.waits, [250, 500], 'half of a doubling bound');
    t.match(asked.events, [{ httpStatus: null, errorCode: 'AI_PROVIDER_UNAVAILABLE' }, {}, { outcome: 'success' }]);
  });

  t.test(`${provider}: a redirect is an error, and nobody goes there`, async (t) => {
    const inside = nock('http://169.254.169.254')
      .post(/.*/)
      .reply(200, good(provider))
      .get(/.*/)
      .reply(200, good(provider));
    at(provider).reply(302, '', { location: 'http://169.254.169.254/latest' });
    const asked = opened(t, provider);
    await failed(t, asked, { code: 'AI_PROVIDER_INVALID_RESPONSE', nature: 'refused' });
    t.equal(inside.isDone(), false);
    t.equal(asked.events.length, 1);
  });
}

t.test('gemini says of a wrong key that the request is', async (t) => {
  const details = [{ '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason: 'API_KEY_INVALID' }];
  at('gemini').reply(400, { error: { code: 400, status: 'INVALID_ARGUMENT', message: 'x', details } });
  await failed(t, opened(t, 'gemini'), { code: 'AI_PROVIDER_UNAVAILABLE', nature: 'refused' });
});

t.test('anthropic says of an empty purse that the request is wrong', async (t) => {
  const message = 'Your credit balance is too low to access the Anthropic API.';
  at('anthropic').reply(400, refusalBody('anthropic', 'invalid_request_error', message));
  await failed(t, opened(t, 'anthropic'), { code: 'AI_PROVIDER_QUOTA', nature: 'refused' });
});

t.test('gemini blocks a prompt without a candidate', async (t) => {
  at('gemini')
    .times(2)
    .reply(200, { promptFeedback: { blockReason: 'SAFETY' }, usageMetadata: { promptTokenCount: 3 } });
  const asked = opened(t, 'gemini');
  await failed(t, asked, { code: 'AI_PROVIDER_INVALID_RESPONSE', nature: 'refused' });
  t.match(asked.events, [{ inputTokens: 3, outputTokens: null }]);
});

t.test('openai refuses in a field of its own', async (t) => {
  const message = { role: 'assistant', content: null, refusal: 'I cannot.' };
  at('openai')
    .times(2)
    .reply(200, { choices: [{ message, finish_reason: 'stop' }] });
  const asked = opened(t, 'openai');
  await failed(t, asked, { code: 'AI_PROVIDER_INVALID_RESPONSE', nature: 'refused' });
  t.equal(asked.events.length, 1);
});

t.test('deepseek may break off for want of resources, and is asked again', async (t) => {
  const body = replyOf('deepseek', '{"sub');
  const [choice] = body.choices as [Record<string, unknown>];
  choice.finish_reason = 'insufficient_system_resource';
  at('deepseek').reply(200, body);
  at('deepseek').reply(200, good('deepseek'));
  const asked = opened(t, 'deepseek');
  t.strictSame((await asked.ask()).json, GOOD);
  t.match(asked.events, [{ errorCode: 'AI_PROVIDER_UNAVAILABLE' }, { outcome: 'success' }]);
});

t.test(
  'a server of one’s own that knows no schema is asked for JSON, then for nothing; and that is remembered',
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

t.test('an optional field that came as null was left out', async (t) => {
  at('openai').reply(200, replyOf('openai', JSON.stringify({ ...GOOD, note: null })));
  t.strictSame((await opened(t, 'openai').ask()).json, GOOD);
});

t.test('retries end with their number, and with the time', async (t) => {
  at('openai').times(9).reply(500, {});
  const none = opened(t, 'openai', { AI_CLASSIFIER_MAX_RETRIES: '0' });
  await failed(t, none, { code: 'AI_PROVIDER_UNAVAILABLE', nature: 'passing' });
  t.equal(none.events.length, 1);
  // Two calls of 5 s each may be made in 10 s; the wait for the second one would take all of it.
  const short = opened(t, 'openai', { AI_CLASSIFIER_MAX_RETRIES: '1', AI_CLASSIFIER_TIMEOUT_MS: '5000' });
  nock.cleanAll();
  at('openai').times(2).reply(503, {}, { 'retry-after': '11' });
  const failure = await failed(t, short, { code: 'AI_PROVIDER_UNAVAILABLE', nature: 'passing' });
  t.strictSame([short.events.length, short.waits, failure.retryAfterMs], [1, [], 11_000]);
});
