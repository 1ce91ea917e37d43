import type { ServerResponse } from 'node:http';
import { mock } from 'node:test';
import pLimit from 'p-limit';
import t from 'tap';
import { answerJson as answer, type ReceivedCall } from '#scripts/sandbox/local-server.ts';
import { streamOf } from '#scripts/sandbox/neighbours/provider-replies.ts';
import { answerJson, GOOD, goodBody, refusedWith, SENTINEL_KEY, servedModels } from '#testing/models/asked-models.ts';
import { until } from '#testing/until.ts';
import { MAX_BYTES } from './http-call.ts';
import { runInSlot } from './provider-call.ts';

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

/** Tests the protection of a provider that fails, requests a pause or is slow. */

t.test('a circuit opens after consecutive failures, admits one trial and closes', async (t) => {
  let works = false;
  const env = { AI_CLASSIFIER_CIRCUIT_FAILURES: '2', AI_CLASSIFIER_CIRCUIT_COOLDOWN_MS: '1000' };
  const { asked, paths } = await servedModels(
    t,
    (response) => (works ? answerJson(response) : answer(response, { status: 500 })),
    {
      ...env,
      AI_CLASSIFIER_MAX_RETRIES: '0',
    },
  );
  const { models } = asked;
  for (const failures of [1, 2]) {
    await t.rejects(asked.ask(), refusedWith('AI_PROVIDER_UNAVAILABLE'));
    t.match(await models.status(), { circuit: { consecutiveFailures: failures } });
  }
  t.match(await models.status(), { status: 'ok', circuit: { state: 'open' } });
  asked.pass(400);
  await t.rejects(asked.ask(), { ...refusedWith('AI_PROVIDER_CIRCUIT_OPEN', 'open'), retryAfterMs: 600 });
  t.equal(paths.length, 2, 'an open circuit makes no call');
  asked.pass(600);
  t.match(await models.status(), { circuit: { state: 'half-open' } });
  await t.rejects(asked.ask(), refusedWith('AI_PROVIDER_UNAVAILABLE'), 'the trial fails');
  await t.rejects(asked.ask(), refusedWith('AI_PROVIDER_CIRCUIT_OPEN', 'open'));
  asked.pass(1_000);
  works = true;
  const together = await Promise.allSettled([asked.ask(), asked.ask(), asked.ask()]);
  t.equal(together.filter(({ status }) => status === 'fulfilled').length, 1, 'one trial call, the others fail at once');
  t.equal(paths.length, 4);
  t.match(await models.status(), { circuit: { state: 'closed', consecutiveFailures: 0, openUntil: null } });
  t.match(
    asked.events.map((event) => event.circuit),
    ['closed', 'closed', 'half-open', 'half-open'],
  );
  await asked.ask();
});

t.test('a request whose own failures open the circuit fails with the last of them', async (t) => {
  const { asked } = await servedModels(t, (response) => answer(response, { status: 500 }), {
    AI_CLASSIFIER_CIRCUIT_FAILURES: '1',
    AI_CLASSIFIER_MAX_RETRIES: '2',
  });
  await t.rejects(asked.ask(), refusedWith('AI_PROVIDER_UNAVAILABLE'));
  t.equal(asked.events.length, 1);
});

t.test('a pause that the provider requested binds the next caller, which waits if it is short', async (t) => {
  const { asked, paths } = await servedModels(
    t,
    (response, _request, count) =>
      count === 1 ? answer(response, { status: 429, headers: { 'retry-after': '30' } }) : answerJson(response),
    { AI_CLASSIFIER_MAX_RETRIES: '0' },
  );
  await t.rejects(asked.ask(), { ...refusedWith('AI_PROVIDER_THROTTLED'), retryAfterMs: 30_000 });
  asked.pass(10_000);
  t.match(await asked.models.status(), {
    circuit: { state: 'closed', throttledUntil: new Date(Date.UTC(2026, 0, 1) + 30_000) },
  });
  t.match(await asked.ask(), { json: GOOD });
  t.strictSame([asked.waits, paths.length], [[20_500], 2]);
});

t.test('a request waits for a slot no longer than for an answer', async (t) => {
  const env = { AI_CLASSIFIER_TIMEOUT_MS: '1000', AI_CLASSIFIER_MAX_RETRIES: '0' };
  const { asked, paths } = await servedModels(t, () => undefined, env);
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  const ends = Promise.allSettled(Array.from({ length: 33 }, () => asked.ask()));
  await until('every slot is taken', () => paths.length === 16);
  mock.timers.tick(1_000);
  const asks = await ends;
  for (const ask of asks) t.match(ask, { status: 'rejected', reason: refusedWith('AI_PROVIDER_TIMEOUT') });
  t.equal(paths.length, 16, 'requests that timed out in the queue make no call');
});

t.test('the concurrent calls of one process to one provider are limited across all callers', async (t) => {
  let [now, most] = [0, 0];
  const held: ServerResponse[] = [];
  const full = Promise.withResolvers<void>();
  const { asked } = await servedModels(t, (response) => {
    now++;
    most = Math.max(most, now);
    held.push(response);
    if (held.length >= 16) full.resolve();
    if (held.length > 16) release();
  });
  const release = () => {
    for (const response of held.splice(0)) {
      now--;
      answerJson(response);
    }
  };
  const asks = Array.from({ length: 40 }, () => asked.ask());
  await full.promise;
  release();
  const pump = setInterval(release, 5);
  await Promise.all(asks).finally(() => clearInterval(pump));
  t.equal(most, 16);
});

const late = () => new Error('late');
const rules = (more: { signal?: AbortSignal; waitMs?: number } = {}) => ({
  signal: new AbortController().signal,
  waitMs: 600_000,
  late,
  ...more,
});

t.test('a caller without a slot in time is rejected, and its work never starts', async (t) => {
  const slots = pLimit(1);
  const held = Promise.withResolvers<string>();
  const first = runInSlot(slots, rules({ waitMs: 1 }), () => held.promise);
  let calls = 0;
  const work = async () => ++calls;
  await t.rejects(runInSlot(slots, rules({ waitMs: 1 }), work), { message: 'late' });
  const controller = new AbortController();
  const cut = runInSlot(slots, rules({ signal: controller.signal }), work);
  controller.abort(new Error('cancelled'));
  await t.rejects(cut, { message: 'cancelled' });
  const third = runInSlot(slots, rules(), work);
  held.resolve('done');
  t.equal(await first, 'done', 'the wait limit does not apply to work that has begun');
  t.equal(await third, 1, 'the slots of those who went are free');
});

t.test('work that has started runs to its end after its caller was aborted', async (t) => {
  const slots = pLimit(1);
  const controller = new AbortController();
  const held = Promise.withResolvers<void>();
  const begins = Promise.withResolvers<void>();
  const begun = runInSlot(slots, rules({ signal: controller.signal }), () => {
    begins.resolve();
    return held.promise;
  });
  await begins.promise;
  controller.abort(new Error('cancelled'));
  await t.rejects(begun, { message: 'cancelled' });
  t.equal(slots.activeCount, 1);
  held.reject(new Error('nobody hears of it'));
  await runInSlot(slots, rules(), async () => undefined);
  let calls = 0;
  const tooLate = runInSlot(slots, rules({ signal: controller.signal }), async () => ++calls);
  await t.rejects(tooLate, { message: 'cancelled' });
  t.equal(calls, 0);
});
