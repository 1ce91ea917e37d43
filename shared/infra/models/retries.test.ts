import nock from 'nock';
import t from 'tap';
import { refusalBody, replyOf } from '#scripts/sandbox/neighbours/provider-replies.ts';
import { GOOD, HTTP_PROVIDERS, SENTINEL_KEY } from '#testing/models/asked-models.ts';
import { at, failed, good, mockProviders, opened } from '#testing/models/mocked-provider.ts';

mockProviders(t);

for (const provider of HTTP_PROVIDERS) {
  t.test(`${provider}: each refusal is mapped to its error code and number of calls`, async (t) => {
    const cases: [number, unknown, string, string, number][] = [
      [400, refusalBody(provider, 'invalid_request_error'), 'AI_PROVIDER_INVALID_RESPONSE', 'refused', 1],
      [401, refusalBody(provider, 'authentication_error'), 'AI_PROVIDER_UNAVAILABLE', 'refused', 1],
      [402, refusalBody(provider, 'billing_error'), 'AI_PROVIDER_QUOTA', 'refused', 1],
      [403, refusalBody(provider, 'permission_error'), 'AI_PROVIDER_UNAVAILABLE', 'refused', 1],
      [404, refusalBody(provider, 'not_found_error'), 'AI_PROVIDER_INVALID_RESPONSE', 'refused', 1],
      [408, '', 'AI_PROVIDER_TIMEOUT', 'passing', 3],
      [409, refusalBody(provider, 'conflict'), 'AI_PROVIDER_INVALID_RESPONSE', 'refused', 1],
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

  t.test(`${provider}: a call with a used-up quota is not retried`, async (t) => {
    const bodies = [
      refusalBody(provider, 'insufficient_quota'),
      { error: { message: 'x', type: 'x', code: 'organization_usage_limit_exceeded' } },
      { type: 'error', error: { type: 'rate_limit_error', details: { error_code: 'enforced_spend_limit_reached' } } },
    ];
    for (const body of bodies) {
      at(provider)
        .times(2)
        .reply(429, body as nock.Body, { 'x-should-retry': 'true' });
      const asked = opened(t, provider, { AI_CLASSIFIER_CIRCUIT_FAILURES: '1' });
      await failed(t, asked, { code: 'AI_PROVIDER_QUOTA', nature: 'refused' });
      t.equal(asked.events.length, 1);
      t.match(await asked.models.status(), { circuit: { state: 'closed', consecutiveFailures: 0 } });
      nock.cleanAll();
    }
  });

  t.test(
    `${provider}: the wait before a retry is the requested one and a random part more, else a random one`,
    async (t) => {
      const soon = new Date(Date.UTC(2026, 0, 1) + 4_000).toUTCString();
      const retryInfo = {
        error: { details: [{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '34.4s' }] },
      };
      const cases: [Record<string, string>, unknown, number][] = [
        [{}, {}, 250],
        [{ 'retry-after': '1' }, {}, 1_125],
        [{ 'retry-after': '1.5' }, {}, 1_687],
        [{ 'retry-after-ms': '20', 'retry-after': '9' }, {}, 22],
        [{ 'x-ms-retry-after-ms': '30' }, {}, 33],
        [{ 'retry-after': soon }, {}, 4_500],
        [{ 'retry-after': soon, date: new Date(Date.UTC(2026, 0, 1) + 1_000).toUTCString() }, {}, 3_375],
        [{ 'retry-after': 'soon' }, {}, 250],
        [{}, retryInfo, 34_900],
        [{}, [retryInfo], 34_900],
      ];
      for (const [headers, body, waitMs] of cases) {
        at(provider).reply(429, body as nock.Body, headers);
        at(provider).reply(200, good(provider));
        const asked = opened(t, provider);
        await asked.ask();
        t.strictSame(asked.waits, [waitMs], JSON.stringify([headers, body]));
        t.equal(asked.events[1]?.retryWaitMs, waitMs);
      }
    },
  );

  t.test(`${provider}: a requested wait of more than a minute ends the request at once`, async (t) => {
    at(provider).times(2).reply(429, {}, { 'retry-after': '3600' });
    const asked = opened(t, provider);
    const failure = await failed(t, asked, { code: 'AI_PROVIDER_THROTTLED', nature: 'passing' });
    t.equal(failure.retryAfterMs, 3_600_000);
    t.strictSame([asked.events.length, asked.waits], [1, []]);
    asked.pass(600_000);
    const next = await failed(t, asked, { code: 'AI_PROVIDER_THROTTLED', nature: 'open' });
    t.equal(next.retryAfterMs, 3_000_000, 'no call is made during the wait');
    t.equal(asked.events.length, 1);
    t.match(await asked.models.status(), { circuit: { state: 'closed', consecutiveFailures: 0 } });
  });

  t.test(`${provider}: an excessive requested wait is limited to a day`, async (t) => {
    at(provider).reply(429, {}, { 'retry-after': '999999999999' });
    const asked = opened(t, provider);
    const failure = await failed(t, asked, { code: 'AI_PROVIDER_THROTTLED', nature: 'passing' });
    t.equal(failure.retryAfterMs, 86_400_000);
    t.match(await asked.models.status(), { circuit: { throttledUntil: new Date(Date.UTC(2026, 0, 2)) } });
  });

  t.test(`${provider}: an error code that contains a part of the key is omitted from the message`, async (t) => {
    at(provider).reply(400, { error: { code: SENTINEL_KEY.slice(0, 20) } });
    const failure = await failed(t, opened(t, provider), { code: 'AI_PROVIDER_INVALID_RESPONSE', nature: 'refused' });
    t.notMatch(failure.message, SENTINEL_KEY.slice(0, 20));
  });

  t.test(`${provider}: the header x-should-retry decides about a retry`, async (t) => {
    at(provider).times(2).reply(500, {}, { 'x-should-retry': 'false' });
    const asked = opened(t, provider);
    await failed(t, asked, { code: 'AI_PROVIDER_UNAVAILABLE', nature: 'passing' });
    t.equal(asked.events.length, 1);
    nock.cleanAll();
    at(provider).reply(400, {}, { 'x-should-retry': 'true' });
    at(provider).reply(200, good(provider));
    t.strictSame((await opened(t, provider).ask()).json, GOOD);
  });

  t.test(`${provider}: a 200 without a complete answer fails`, async (t) => {
    const error =
      provider === 'gemini' ? { error: { code: 503, status: 'UNAVAILABLE' } } : { error: { type: 'server_error' } };
    for (const body of ['{"choices":[{"mess', '', '<html>', {}, [], 'null', error]) {
      at(provider)
        .times(2)
        .reply(200, body as nock.Body);
      at(provider).reply(200, good(provider));
      const asked = opened(t, provider);
      t.strictSame((await asked.ask()).json, GOOD, JSON.stringify(body));
      t.equal(asked.events.length, 3, 'both incomplete answers are retried');
      nock.cleanAll();
    }
  });

  t.test(`${provider}: a call whose connection breaks is retried`, async (t) => {
    at(provider)
      .times(2)
      .replyWithError(Object.assign(new Error('reset'), { code: 'ECONNRESET' }));
    at(provider).reply(200, good(provider));
    const asked = opened(t, provider);
    t.strictSame((await asked.ask()).json, GOOD);
    t.strictSame(asked.waits, [250, 500], 'half of a doubling bound');
    t.match(asked.events, [{ httpStatus: null, errorCode: 'AI_PROVIDER_UNAVAILABLE' }, {}, { outcome: 'success' }]);
  });

  t.test(`${provider}: a redirect is an error and is not followed`, async (t) => {
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

t.test('gemini: a 400 with API_KEY_INVALID is treated as a wrong key', async (t) => {
  const details = [{ '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason: 'API_KEY_INVALID' }];
  at('gemini').reply(400, { error: { code: 400, status: 'INVALID_ARGUMENT', message: 'x', details } });
  await failed(t, opened(t, 'gemini'), { code: 'AI_PROVIDER_UNAVAILABLE', nature: 'refused' });
});

t.test('anthropic: a 400 for a low credit balance is treated as a used-up quota', async (t) => {
  const message = 'Your credit balance is too low to access the Anthropic API.';
  at('anthropic').reply(400, refusalBody('anthropic', 'invalid_request_error', message));
  await failed(t, opened(t, 'anthropic'), { code: 'AI_PROVIDER_QUOTA', nature: 'refused' });
});

t.test('deepseek: an answer that stopped for lack of resources is retried', async (t) => {
  const body = replyOf('deepseek', '{"sub');
  const [choice] = body.choices as [Record<string, unknown>];
  choice.finish_reason = 'insufficient_system_resource';
  at('deepseek').reply(200, body);
  at('deepseek').reply(200, good('deepseek'));
  const asked = opened(t, 'deepseek');
  t.strictSame((await asked.ask()).json, GOOD);
  t.match(asked.events, [{ errorCode: 'AI_PROVIDER_UNAVAILABLE' }, { outcome: 'success' }]);
});

t.test('retries end when their number or the time is used up', async (t) => {
  at('openai').times(9).reply(500, {});
  const none = opened(t, 'openai', { AI_CLASSIFIER_MAX_RETRIES: '0' });
  await failed(t, none, { code: 'AI_PROVIDER_UNAVAILABLE', nature: 'passing' });
  t.equal(none.events.length, 1);
  // Two calls of 5 s each fit into 10 s, but the requested wait alone exceeds 10 s.
  const short = opened(t, 'openai', { AI_CLASSIFIER_MAX_RETRIES: '1', AI_CLASSIFIER_TIMEOUT_MS: '5000' });
  nock.cleanAll();
  at('openai').times(2).reply(503, {}, { 'retry-after': '11' });
  const failure = await failed(t, short, { code: 'AI_PROVIDER_UNAVAILABLE', nature: 'passing' });
  t.strictSame([short.events.length, short.waits, failure.retryAfterMs], [1, [], 11_000]);
});
