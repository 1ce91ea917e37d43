import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import { ABOUT, askedModels, GOOD, SENTINEL_KEY, settingsFor, TASK } from '../../testing/models/asked-models.ts';
import { replyOf, streamOf } from '../../testing/models/provider-replies.ts';
import { MOST_BYTES } from './http-call.ts';

/** Cuts, silence and trickles, which only real sockets have. */

type Handle = (response: ServerResponse, request: IncomingMessage, count: number) => void;

/** A provider of one's own that answers as it is told; `gone` counts the requests whose caller went away. */
async function served(t: Test, handle: Handle, env: NodeJS.ProcessEnv = {}) {
  let count = 0;
  const gone = Promise.withResolvers<void>();
  const paths: string[] = [];
  const server = createServer((request, response) => {
    paths.push(request.url ?? '');
    response.on('close', () => response.writableFinished || gone.resolve());
    request.resume().on('end', () => handle(response, request, ++count));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const settings = settingsFor('local', {
    AI_CLASSIFIER_BASE_URL: `${origin}/v1`,
    AI_CLASSIFIER_ALLOWED_BASE_URLS: origin,
    AI_CLASSIFIER_MAX_RETRIES: '1',
    ...env,
  });
  return { asked: askedModels(t, settings), paths, gone: gone.promise, origin };
}

const good = JSON.stringify(replyOf('local', JSON.stringify(GOOD)));
const json = (response: ServerResponse, body = good) =>
  response.writeHead(200, { 'content-type': 'application/json' }).end(body);
const refusedWith = (code: string, nature = 'passing') => ({ code, nature });

t.test('an answer over a real socket, through the guarded agent', async (t) => {
  const { asked, paths } = await served(t, (response, request) => {
    t.equal(request.headers.authorization, `Bearer ${SENTINEL_KEY}`);
    json(response);
  });
  t.match(await asked.ask(), { json: GOOD });
  t.strictSame(paths, ['/v1/chat/completions']);
});

t.test('silence, headers without a body, and a body that trickles for ever all end at one timeout', async (t) => {
  const env = { AI_CLASSIFIER_TIMEOUT_MS: '150', AI_CLASSIFIER_MAX_RETRIES: '0' };
  const silent = await served(t, () => undefined, env);
  await t.rejects(silent.asked.ask(), refusedWith('AI_PROVIDER_TIMEOUT'));
  const headless = await served(t, (response) => void response.writeHead(200).write('{'), env);
  await t.rejects(headless.asked.ask(), refusedWith('AI_PROVIDER_TIMEOUT'));
  const trickling = await served(
    t,
    (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const timer = setInterval(() => response.write(': keep-alive\n\n'), 10);
      response.on('close', () => clearInterval(timer));
    },
    { ...env, AI_CLASSIFIER_STREAMING: '1' },
  );
  await t.rejects(trickling.asked.ask(), refusedWith('AI_PROVIDER_TIMEOUT'));
  t.match(
    [silent, headless, trickling].map(({ asked }) => asked.events[0]?.httpStatus),
    [null, 200, 200],
  );
  t.match(await trickling.asked.models.status(), { circuit: { consecutiveFailures: 1 } });
});

t.test('a body and a stream that are cut are asked for again', async (t) => {
  const cut = (type: string, body: string) => (response: ServerResponse, _request: IncomingMessage, count: number) => {
    if (count > 1) {
      response.writeHead(200, { 'content-type': type }).end(body);
      return;
    }
    response.writeHead(200, { 'content-type': type, 'content-length': Buffer.byteLength(body) });
    response.write(body.slice(0, -40), () => response.destroy());
  };
  const whole = await served(t, cut('application/json', good));
  t.match(await whole.asked.ask(), { json: GOOD });
  const stream = streamOf('local', JSON.stringify(GOOD));
  const streamed = await served(t, cut('text/event-stream', stream), { AI_CLASSIFIER_STREAMING: '1' });
  t.match(await streamed.asked.ask(), { json: GOOD });
  for (const { asked } of [whole, streamed]) {
    t.match(asked.events, [{ outcome: 'failure', errorCode: 'AI_PROVIDER_UNAVAILABLE' }, { outcome: 'success' }]);
  }
});

t.test(
  'a stream may be cut into bytes anywhere, end its lines as it likes and leave its last event open',
  async (t) => {
    const text = JSON.stringify({ ...GOOD, subject: 'tiếng Việt 🙂' });
    const bytes = Buffer.from(streamOf('local', text).replaceAll('\n', '\r\n').trimEnd());
    const { asked } = await served(
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

t.test('an answer over the cap is not read to its end, and says nothing of the provider', async (t) => {
  const blank = (bytes: number) => ' '.repeat(bytes - Buffer.byteLength(good)) + good;
  const { asked } = await served(t, (response, _request, count) =>
    json(response, blank(count === 1 ? MOST_BYTES : MOST_BYTES + 1)),
  );
  t.match(await asked.ask(), { json: GOOD }, 'one that is as long as may be');
  await t.rejects(asked.ask(), refusedWith('AI_PROVIDER_INVALID_RESPONSE', 'refused'));
  t.equal(asked.events.length, 2, 'it is not asked for again');
  t.match(await asked.models.status(), { circuit: { consecutiveFailures: 0 } });
});

t.test('whoever does not want the answer any more gets none, and the call ends', async (t) => {
  const { asked, gone } = await served(t, () => controller.abort(new Error('cancelled')));
  const controller = new AbortController();
  await t.rejects(asked.ask({}, controller.signal), { message: 'cancelled' });
  await gone;
  t.match(asked.events, [{ outcome: 'cancelled', errorCode: null, httpStatus: null }]);
  t.match(await asked.models.status(), { circuit: { consecutiveFailures: 0 } });
  await t.rejects(asked.ask({}, controller.signal), { message: 'cancelled' }, 'nor is a call begun');
  t.equal(asked.events.length, 1);
});

t.test('a call under way ends where it began when the provider is switched', async (t) => {
  const { asked } = await served(t, (response) => {
    asked.models.select({ provider: 'mock', model: null, baseUrl: null, apiKeyRef: null });
    json(response);
  });
  t.match(await asked.ask(), { provider: 'local', json: GOOD });
  t.match(await asked.ask(), { provider: 'mock' });
  t.match(await asked.models.status(), { provider: 'mock', configurationSource: 'database' });
  asked.models.select(null);
  t.match(await asked.models.status(), { provider: 'local', configurationSource: 'environment' });
});

t.test('a circuit opens after failures in a row, tries once, and closes', async (t) => {
  let works = false;
  const env = { AI_CLASSIFIER_CIRCUIT_FAILURES: '2', AI_CLASSIFIER_CIRCUIT_COOLDOWN_MS: '1000' };
  const { asked, paths } = await served(t, (response) => (works ? json(response) : response.writeHead(500).end()), {
    ...env,
    AI_CLASSIFIER_MAX_RETRIES: '0',
  });
  const { models } = asked;
  for (const failures of [1, 2]) {
    await t.rejects(asked.ask(), refusedWith('AI_PROVIDER_UNAVAILABLE'));
    t.match(await models.status(), { circuit: { consecutiveFailures: failures } });
  }
  t.match(await models.status(), { status: 'ok', circuit: { state: 'open' } });
  asked.pass(400);
  await t.rejects(asked.ask(), { ...refusedWith('AI_PROVIDER_CIRCUIT_OPEN', 'open'), retryAfterMs: 600 });
  t.equal(paths.length, 2, 'nobody was asked');
  asked.pass(600);
  t.match(await models.status(), { circuit: { state: 'half-open' } });
  await t.rejects(asked.ask(), refusedWith('AI_PROVIDER_UNAVAILABLE'), 'the trial fails');
  await t.rejects(asked.ask(), refusedWith('AI_PROVIDER_CIRCUIT_OPEN', 'open'));
  asked.pass(1_000);
  works = true;
  const together = await Promise.allSettled([asked.ask(), asked.ask(), asked.ask()]);
  t.equal(together.filter(({ status }) => status === 'fulfilled').length, 1, 'one call tries, the others fail at once');
  t.equal(paths.length, 4);
  t.match(await models.status(), { circuit: { state: 'closed', consecutiveFailures: 0, openUntil: null } });
  t.match(
    asked.events.map((event) => event.circuit),
    ['closed', 'closed', 'half-open', 'half-open'],
  );
  await asked.ask();
});

t.test('an ask whose own failures open the circuit fails with those', async (t) => {
  const { asked } = await served(t, (response) => response.writeHead(500).end(), {
    AI_CLASSIFIER_CIRCUIT_FAILURES: '1',
    AI_CLASSIFIER_MAX_RETRIES: '2',
  });
  await t.rejects(asked.ask(), refusedWith('AI_PROVIDER_UNAVAILABLE'));
  t.equal(asked.events.length, 1);
});

t.test('a pause that one caller was told of is kept by the next, and waited out where it is short', async (t) => {
  const { asked, paths } = await served(
    t,
    (response, _request, count) =>
      count === 1 ? response.writeHead(429, { 'retry-after': '30' }).end() : json(response),
    { AI_CLASSIFIER_MAX_RETRIES: '0' },
  );
  await t.rejects(asked.ask(), { ...refusedWith('AI_PROVIDER_THROTTLED'), retryAfterMs: 30_000 });
  asked.pass(10_000);
  t.match(await asked.models.status(), {
    circuit: { state: 'closed', throttledUntil: new Date(Date.UTC(2026, 0, 1) + 30_000) },
  });
  t.match(await asked.ask(), { json: GOOD });
  t.strictSame([asked.waits, paths.length], [[20_000], 2]);
});

t.test('what cannot be asked is refused before anybody is called', async (t) => {
  const cases: [NodeJS.ProcessEnv, string][] = [
    [
      { AI_CLASSIFIER_PROVIDER: 'openai', AI_CLASSIFIER_API_KEY: undefined, AI_CLASSIFIER_BASE_URL: undefined },
      'NO_KEY',
    ],
    [
      {
        AI_CLASSIFIER_PROVIDER: 'openai',
        AI_CLASSIFIER_BASE_URL: undefined,
        AI_CLASSIFIER_API_KEY: '',
        OPENAI_API_KEY: 'sk-own',
      },
      'NO_KEY',
    ],
    [{ AI_CLASSIFIER_PROVIDER: 'openai', AI_CLASSIFIER_BASE_URL: '' }, 'NOT_A_BASE_URL'],
    [{ AI_CLASSIFIER_PROVIDER: 'acme' }, 'UNSUPPORTED'],
    [{ AI_CLASSIFIER_PROVIDER: 'constructor', AI_CLASSIFIER_MODEL: undefined }, 'UNSUPPORTED'],
    [{ AI_CLASSIFIER_MODEL: undefined }, 'NO_MODEL'],
    [{ AI_CLASSIFIER_BASE_URL: undefined }, 'NO_BASE_URL'],
    [{ AI_CLASSIFIER_ALLOWED_BASE_URLS: undefined }, 'ORIGIN_NOT_ALLOWED'],
    [{ AI_CLASSIFIER_PROVIDER: 'openai', AI_CLASSIFIER_BASE_URL: 'https://evil.example/v1' }, 'ORIGIN_NOT_ALLOWED'],
    [
      { AI_CLASSIFIER_BASE_URL: 'http://169.254.169.254', AI_CLASSIFIER_ALLOWED_BASE_URLS: 'http://169.254.169.254' },
      'FORBIDDEN_HOST',
    ],
  ];
  for (const [env, fault] of cases) {
    const asked = askedModels(t, settingsFor('local', env));
    await t.rejects(asked.ask(), { ...refusedWith('AI_PROVIDER_NOT_CONFIGURED', 'refused'), message: fault });
    t.match(await asked.models.status(), { status: 'degraded', features: { classify: false } });
    t.strictSame(asked.events, []);
  }
});

t.test('local is asked without a key, but not where one is named and unset', async (t) => {
  const { asked, origin } = await served(
    t,
    (response, request) => json(response, good.slice(request.headers.authorization ? 1 : 0)),
    {
      AI_CLASSIFIER_API_KEY: undefined,
    },
  );
  t.match(await asked.ask(), { json: GOOD });
  const selection = { provider: 'local', model: 'm', baseUrl: `${origin}/v1` } as const;
  asked.models.select({ ...selection, apiKeyRef: 'AI_CLASSIFIER_API_KEY' });
  t.match(await asked.models.status(), { status: 'degraded', apiKeyConfigured: false });
  await t.rejects(asked.ask(), { ...refusedWith('AI_PROVIDER_NOT_CONFIGURED', 'refused'), message: 'NO_KEY' });
  asked.models.select({ ...selection, apiKeyRef: null });
  t.match(await asked.models.status(), { status: 'ok', apiKeyConfigured: false });
});

t.test('an ask does not wait for a slot longer than for an answer', async (t) => {
  const env = { AI_CLASSIFIER_TIMEOUT_MS: '300', AI_CLASSIFIER_MAX_RETRIES: '0' };
  const { asked, paths } = await served(t, () => undefined, env);
  const asks = await Promise.allSettled(Array.from({ length: 33 }, () => asked.ask()));
  for (const ask of asks) t.match(ask, { status: 'rejected', reason: refusedWith('AI_PROVIDER_TIMEOUT') });
  t.equal(paths.length, 16, 'nobody was asked for those who had gone');
});

t.test('a listed name that leads to a metadata address is not called', async (t) => {
  const asked = askedModels(
    t,
    settingsFor('local', {
      AI_CLASSIFIER_BASE_URL: 'https://[::ffff:a9fe:a9fe]/v1',
      AI_CLASSIFIER_MAX_RETRIES: '0',
      AI_CLASSIFIER_ALLOWED_BASE_URLS: 'https://[::ffff:a9fe:a9fe]',
    }),
  );
  await t.rejects(asked.models.ask(TASK, ABOUT, new AbortController().signal), { message: 'FORBIDDEN_HOST' });
});

t.test('calls of one process to one provider are bounded, whoever makes them', async (t) => {
  let [now, most] = [0, 0];
  const held: ServerResponse[] = [];
  const full = Promise.withResolvers<void>();
  const { asked } = await served(t, (response) => {
    now++;
    most = Math.max(most, now);
    held.push(response);
    if (held.length >= 16) full.resolve();
    if (held.length > 16) release();
  });
  const release = () => {
    for (const response of held.splice(0)) {
      now--;
      json(response);
    }
  };
  const asks = Array.from({ length: 40 }, () => asked.ask());
  await full.promise;
  release();
  const pump = setInterval(release, 5);
  await Promise.all(asks).finally(() => clearInterval(pump));
  t.equal(most, 16);
});
