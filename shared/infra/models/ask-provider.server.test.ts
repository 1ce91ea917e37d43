import type { ServerResponse } from 'node:http';
import { mock } from 'node:test';
import t from 'tap';
import type { ReceivedCall } from '#scripts/http/local-server.ts';
import { GOOD, SENTINEL_KEY } from '#testing/models/asked-models.ts';
import { streamOf } from '#testing/models/provider-replies.ts';
import { answerJson, goodBody, refusedWith, servedModels } from '#testing/models/served-models.ts';
import { until } from '#testing/until.ts';
import { MAX_BYTES } from './http-call.ts';

/** Tests cut, silent and slow answers, which require real sockets. */

t.test('an answer is read over a real socket through the guarded agent', async (t) => {
  const { asked, paths } = await servedModels(t, (response, request) => {
    t.equal(request.headers.authorization, `Bearer ${SENTINEL_KEY}`);
    answerJson(response);
  });
  t.match(await asked.ask(), { json: GOOD });
  t.strictSame(paths, ['/v1/chat/completions']);
});

t.test('one timeout ends a silent server, headers without a body and an endless body', async (t) => {
  const env = { AI_CLASSIFIER_TIMEOUT_MS: '1000', AI_CLASSIFIER_MAX_RETRIES: '0' };
  const { fetch } = globalThis;
  let heads = 0;
  mock.method(globalThis, 'fetch', async (...call: Parameters<typeof fetch>) => {
    const response = await fetch(...call);
    heads += 1;
    return response;
  });
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.reset());
  /** Calls the server and lets the timeout expire once the call has come as far as `reached`. */
  const timesOut = async ({ asked }: Awaited<ReturnType<typeof servedModels>>, reached: () => boolean) => {
    const ask = t.rejects(asked.ask(), refusedWith('AI_PROVIDER_TIMEOUT'));
    await until('the call is under way', reached);
    mock.timers.tick(1_000);
    await ask;
  };
  const silent = await servedModels(t, () => undefined, env);
  await timesOut(silent, () => silent.paths.length === 1);
  const headless = await servedModels(t, (response) => void response.writeHead(200).write('{'), env);
  await timesOut(headless, () => heads === 1);
  const trickling = await servedModels(
    t,
    (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const timer = setInterval(() => response.write(': keep-alive\n\n'), 10);
      response.on('close', () => clearInterval(timer));
    },
    { ...env, AI_CLASSIFIER_STREAMING: '1' },
  );
  await timesOut(trickling, () => heads === 2);
  t.match(
    [silent, headless, trickling].map(({ asked }) => asked.events[0]?.httpStatus),
    [null, 200, 200],
  );
  t.match(await trickling.asked.models.status(), { circuit: { consecutiveFailures: 1 } });
});

t.test('a call whose body or stream is cut is retried', async (t) => {
  const cut = (type: string, body: string) => (response: ServerResponse, _request: ReceivedCall, count: number) => {
    if (count > 1) {
      response.writeHead(200, { 'content-type': type });
      response.end(body);
      return;
    }
    response.writeHead(200, { 'content-type': type, 'content-length': Buffer.byteLength(body) });
    response.write(body.slice(0, body.length / 2), () => response.destroy());
  };
  const whole = await servedModels(t, cut('application/json', goodBody));
  t.match(await whole.asked.ask(), { json: GOOD });
  const stream = streamOf('local', JSON.stringify(GOOD));
  const streamed = await servedModels(t, cut('text/event-stream', stream), { AI_CLASSIFIER_STREAMING: '1' });
  t.match(await streamed.asked.ask(), { json: GOOD });
  for (const { asked } of [whole, streamed]) {
    t.match(asked.events, [{ outcome: 'failure', errorCode: 'AI_PROVIDER_UNAVAILABLE' }, { outcome: 'success' }]);
  }
});

t.test(
  'a stream is read correctly with any chunk boundaries, with any line ends and with an unclosed last event',
  async (t) => {
    const text = JSON.stringify({ ...GOOD, subject: 'tiếng Việt 🙂' });
    const bytes = Buffer.from(streamOf('local', text).replaceAll('\n', '\r\n').trimEnd());
    const { asked } = await servedModels(
      t,
      async (response) => {
        response.socket?.setNoDelay(true);
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        for (let from = 0; from < bytes.length; from += 7) {
          await new Promise((written) => response.write(bytes.subarray(from, from + 7), written));
        }
        response.end();
      },
      { AI_CLASSIFIER_STREAMING: '1' },
    );
    t.match(await asked.ask(), { json: { subject: 'tiếng Việt 🙂' }, usage: { inputTokens: 7, outputTokens: 11 } });
  },
);

t.test('a stream is over at its end mark, and whole at the time limit if only its end mark is missing', async (t) => {
  const env = { AI_CLASSIFIER_STREAMING: '1', AI_CLASSIFIER_TIMEOUT_MS: '1000', AI_CLASSIFIER_MAX_RETRIES: '0' };
  const open = (body: string) => (response: ServerResponse) =>
    void response.writeHead(200, { 'content-type': 'Text/Event-Stream' }).write(body);
  const text = JSON.stringify(GOOD);
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.reset());
  const marked = await servedModels(t, open(streamOf('local', text)), env);
  t.match(await marked.asked.ask(), { json: GOOD }, 'no time passes');

  for (const [body, outcome] of [
    [streamOf('local', text, { without: 'done' }), 'answered'],
    [streamOf('local', text, { without: 'end' }), 'AI_PROVIDER_TIMEOUT'],
  ] as const) {
    let isSent = false;
    const server = await servedModels(
      t,
      (response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' }).write(body, () => {
          isSent = true;
        });
      },
      env,
    );
    const ended = server.asked.ask().then(
      () => 'answered',
      ({ code }) => code,
    );
    await until('the answer is sent', () => isSent);
    for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    mock.timers.tick(1_000);
    t.equal(await ended, outcome);
  }
});

t.test('an answer over the size limit is not read to its end and does not count against the provider', async (t) => {
  const blank = (bytes: number) => ' '.repeat(bytes - Buffer.byteLength(goodBody)) + goodBody;
  const { asked } = await servedModels(t, (response, _request, count) =>
    answerJson(response, blank(count === 1 ? MAX_BYTES : MAX_BYTES + 1)),
  );
  t.match(await asked.ask(), { json: GOOD }, 'an answer at the size limit');
  await t.rejects(asked.ask(), refusedWith('AI_PROVIDER_INVALID_RESPONSE', 'refused'));
  t.equal(asked.events.length, 2, 'an answer over the limit is not requested again');
  t.match(await asked.models.status(), { circuit: { consecutiveFailures: 0 } });
});

t.test('an abort rejects the request and ends the call', async (t) => {
  const { asked, gone } = await servedModels(t, () => controller.abort(new Error('cancelled')));
  const controller = new AbortController();
  await t.rejects(asked.ask({}, controller.signal), { message: 'cancelled' });
  await gone;
  t.match(asked.events, [{ outcome: 'cancelled', errorCode: null, httpStatus: null }]);
  t.match(await asked.models.status(), { circuit: { consecutiveFailures: 0 } });
  await t.rejects(
    asked.ask({}, controller.signal),
    { message: 'cancelled' },
    'a request that was aborted before makes no call',
  );
  t.equal(asked.events.length, 1);
});
