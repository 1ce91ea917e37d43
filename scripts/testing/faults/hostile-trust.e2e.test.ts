import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { DEVELOPMENT_DEFAULTS } from '#infra/config/variable.ts';
import { answerJson, openReceiver } from '#scripts/sandbox/local-server.ts';
import { freePort } from '#scripts/start/services/port.ts';
import { type Headers, newExamId, startBody } from '#testing/clients/attempt-client.ts';
import { newUserId, notificationBody } from '#testing/clients/notification-client.ts';
import { PRODUCTION } from '#testing/config-faults.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { callExamhall } from '#testing/processes/run-examhall.ts';
import { until } from '#testing/until.ts';

/**
 * Attacks on what the product trusts: its configuration, its tokens, its operators and the pages that a user opens. The comment of a
 * test states the result against an earlier state.
 *
 * Other attacks on trust are repeated elsewhere:
 * - every fault of a configuration: `shared/infra/config/*.test.ts`;
 * - every credential of a sender: `api/notification/senders.e2e.test.ts`;
 * - the rotation of tokens: `rotation.e2e.test.ts`;
 * - imports with `--allow-admin`: `scripts/examhall/examhall-account.e2e.test.ts`;
 * - forms in every spelling: `api/server.body.test.ts`.
 */

const ROOT = path.resolve(import.meta.dirname, '../../..');
const TOKENS = {
  GATEWAY_TOKEN: 'gateway-token-of-hostile-trust',
  INTERNAL_SERVICE_TOKEN: 'internal-token-of-hostile-trust',
  ATTEMPT_INTERNAL_SERVICE_TOKEN: 'attempt-token-of-hostile-trust',
  NOTIFICATION_TOKEN_EXAM_SERVICE: 'exam-token-of-hostile-trust',
  NOTIFICATION_TOKEN_CLASSROOM_SERVICE: 'classroom-token-of-hostile-trust',
  OPS_TOKEN: 'operator-token-of-hostile-trust',
};
const GENERIC_KEY = 'sk-generic-key-of-hostile-trust';

/** Keys that reached an address which the operator allows for models. */
const keysSent: unknown[] = [];
const models = await openReceiver(t, ({ headers }, response) => {
  keysSent.push(headers.authorization);
  answerJson(response, { status: 400, body: { error: { message: 'refused' } } });
});
const cluster = await startCluster(t, {
  inside: true,
  workers: [],
  neighbours: false,
  env: {
    ...TOKENS,
    NODE_ENV: 'production',
    HOST: '127.0.0.1',
    TRUSTED_PROXIES: 'none',
    AI_CLASSIFIER_PROVIDER: 'openai',
    AI_CLASSIFIER_MODEL: 'a-model',
    AI_CLASSIFIER_API_KEY: GENERIC_KEY,
    AI_CLASSIFIER_ALLOWED_BASE_URLS: models,
  },
});

const gateway = (role: string, id = 'a-user', more: Headers = {}): Headers => ({
  'x-gateway-token': TOKENS.GATEWAY_TOKEN,
  'x-user-id': id,
  'x-user-role': role,
  'x-actor-id': id,
  'x-actor-role': role,
  'x-organization-id': 'org-1',
  ...more,
});
const service = (name: string, token: string): Headers => ({ 'x-internal-service': name, 'x-internal-token': token });

/**
 * Starts a process and returns its exit code and its whole output. It must refuse to start; one that claims to be `ready` gets SIGTERM.
 */
async function refusal(
  script: readonly string[],
  env: NodeJS.ProcessEnv,
  ready?: string,
): Promise<{ code: number; said: string }> {
  const { MONGODB_URL, REDIS_URL, PATH } = cluster.env;
  const child = spawn(process.execPath, [...script], {
    cwd: ROOT,
    env: { PATH, MONGODB_URL, REDIS_URL, PORT: String(await freePort()), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    // A process that starts in spite of its fault is killed, and the test fails for its code.
    timeout: 120_000,
    killSignal: 'SIGKILL',
  });
  child.stdout.on('data', (chunk) => {
    if (ready !== undefined && String(chunk).includes(ready)) child.kill('SIGTERM');
  });
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  return { code, said: out + err };
}

const own = { ...PRODUCTION, MONGODB_URL: cluster.env.MONGODB_URL, REDIS_URL: cluster.env.REDIS_URL };
const { AUTH_JWT_SECRET, GATEWAY_TOKEN, INTERNAL_SERVICE_TOKEN, OPS_TOKEN } = PRODUCTION;
const SECRETS = [AUTH_JWT_SECRET, GATEWAY_TOKEN, INTERNAL_SERVICE_TOKEN, OPS_TOKEN];
const equal = 'one-token-for-everything';
for (const [attack, env, says] of [
  // Before: it started without a warning, and `X-User-Role: ADMIN` was believed from the internet.
  [
    'a forgotten NODE_ENV on an open address',
    { HOST: '0.0.0.0', ...DEVELOPMENT_DEFAULTS },
    /HOST: 0\.0\.0\.0 is reachable from other machines while .*INTERNAL_SERVICE_TOKEN.* and GATEWAY_TOKEN is unset/,
  ],
  // Before: a warning.
  [
    'production without a gateway token',
    { ...own, GATEWAY_TOKEN: undefined },
    /GATEWAY_TOKEN: not set, wanted a token/,
  ],
  // Before: it passed, so that each neighbour could act as the gateway and read the metrics.
  [
    'one token for gateway, services and operators',
    { ...own, GATEWAY_TOKEN: equal, INTERNAL_SERVICE_TOKEN: equal, OPS_TOKEN: equal },
    /(?:\w+_TOKEN, ){2}\w+_TOKEN: set to the same value/,
  ],
  [
    'the token of all neighbours as an earlier one of the gateway',
    { ...own, GATEWAY_TOKEN_PREVIOUS: PRODUCTION.INTERNAL_SERVICE_TOKEN },
    /GATEWAY_TOKEN_PREVIOUS.*: set to the same value/,
  ],
  // Before: any length passed.
  ['a token that can be guessed', { ...own, INTERNAL_SERVICE_TOKEN: 'a' }, /INTERNAL_SERVICE_TOKEN: .* 24 characters/],
  // Before: 24 characters of any kind passed.
  ['a token of one letter', { ...own, GATEWAY_TOKEN: 'a'.repeat(24) }, /GATEWAY_TOKEN: .* 10 different characters/],
  [
    'a signing secret of a template',
    { ...own, AUTH_JWT_SECRET: 'Change-Me-in-production-0123456789' },
    /AUTH_JWT_SECRET: .* not a placeholder/,
  ],
  // Before: a warning, and one client behind the gateway slowed the logins of a whole school.
  [
    'accounts and no word about its proxies',
    { ...own, TRUSTED_PROXIES: undefined },
    /TRUSTED_PROXIES: not set, wanted the addresses of the gateway, or none/,
  ],
] as const) {
  t.test(`no front door starts with ${attack}`, async (t) => {
    const { code, said } = await refusal(['api/main.ts'], env);
    t.equal(code, 78, said);
    t.match(said, says);
    for (const secret of SECRETS) t.notMatch(said, secret, 'no secret is shown');
  });
}

// Before: it refused to start without the secrets that make an ADMIN, and each platform passed them all to every process.
t.test('a worker starts without the secrets of front doors, and takes none of them', async (t) => {
  const { NODE_ENV, MONGODB_URL, REDIS_URL } = own;
  const worker = { NODE_ENV, MONGODB_URL, REDIS_URL, MONGODB_DATABASE: cluster.env.MONGODB_DATABASE };
  const start = (env: NodeJS.ProcessEnv) => refusal(['workers/main.ts', 'grading'], env, 'worker is ready');
  const bare = await start(worker);
  t.equal(bare.code, 0, bare.said);
  t.notMatch(bare.said, 'does not use it');
  const { TRUSTED_PROXIES: _none, ...all } = own;
  const full = await start({ ...all, ...worker, GATEWAY_TOKEN: 'short' });
  t.equal(full.code, 0, full.said);
  for (const name of ['AUTH_JWT_SECRET', 'GATEWAY_TOKEN', 'INTERNAL_SERVICE_TOKEN', 'OPS_TOKEN'])
    t.match(full.said, `${name} is set but \`grading\` does not use it: remove it from this process`);
  for (const secret of SECRETS) t.notMatch(full.said, secret, 'no secret is shown');
});

// Before: a note, and pupils' data was stored on a stand-in made for development.
t.test('npm start in production stores nothing on a stand-in', async (t) => {
  const DATA_DIR = path.join(t.testdir({}), 'data');
  const nothing = t.testdir({});
  const { code, said } = await refusal(['scripts/start/dev.ts'], {
    ...PRODUCTION,
    MONGODB_URL: undefined,
    PATH: nothing,
    DATA_DIR,
  });
  t.not(code, 0);
  t.match(said, /MONGODB_URL: not set, wanted a replica set; .* is a stand-in/);
});

// Before: one token came in as gateway, exam service, classifier and every producer.
t.test('a neighbour that leaks its token opens its own routes and no others', async (t) => {
  const leaked = TOKENS.NOTIFICATION_TOKEN_EXAM_SERVICE;
  const examId = newExamId();
  const start = { ...gateway('STUDENT'), 'x-exam-runtime-decision-source': 'exam-service', 'idempotency-key': 'k' };
  const event = { type: 'exam.any', notifications: [notificationBody(newUserId())] };
  const handoff = {
    sourceService: 'ai-classifier-service',
    type: 'ai.essay_grade.handoff.v1',
    sourceEventId: 'e',
    questionId: 'q',
    score: 1,
    maxScore: 1,
  };
  const release = { sourceService: 'exam-service', type: 'exam.results_released.v1', sourceEventId: 'e', examId };
  for (const [what, method, target, headers, body, status] of [
    [
      'acts as the gateway',
      'GET',
      '/v1/admin/attempts/summary',
      { ...gateway('ADMIN'), 'x-gateway-token': leaked },
      undefined,
      401,
    ],
    ['reads metrics', 'GET', '/metrics', { authorization: `Bearer ${leaked}` }, undefined, 401],
    [
      'starts',
      'POST',
      `/v1/exams/${examId}/attempts`,
      { ...start, ...service('api-gateway', leaked) },
      startBody(examId),
      403,
    ],
    ['grades', 'POST', '/v1/attempts/a/essay-grade-handoffs', service('ai-classifier-service', leaked), handoff, 401],
    ['releases', 'POST', '/v1/events/exam-results-released', service('exam-service', leaked), release, 401],
    ['notifies as another', 'POST', '/v1/events/notification', service('classroom-service', leaked), event, 401],
    ['notifies as the grader', 'POST', '/v1/events/notification', service('attempt-service', leaked), event, 401],
    ['reads the provider', 'GET', '/v1/ai/providers/status', service('admin-service', leaked), undefined, 401],
    ['notifies as itself', 'POST', '/v1/events/notification', service('exam-service', leaked), event, 201],
  ] as const) {
    const reply = await cluster.request(method, target, { headers, body });
    t.equal(reply.status, status, `${what}: ${reply.text}`);
  }
  t.equal(await cluster.mongo.collection('attempts').countDocuments(), 0);
});

// Before: it made an ADMIN with the password 123456, and neither dry run nor audit showed it.
t.test('an import makes no ADMIN unseen', async (t) => {
  const passwordHash = `$2b$04$${'a'.repeat(53)}`;
  const file = path.join(
    t.testdir({
      'staff.jsonl': JSON.stringify({ email: 'boss@staff.vn', fullName: 'B', role: 'ADMIN', passwordHash }),
    }),
    'staff.jsonl',
  );
  const place = { url: cluster.env.MONGODB_URL ?? '', database: cluster.env.MONGODB_DATABASE ?? '' };
  for (const flags of [[], ['--yes']]) {
    t.match(await callExamhall(place, ['account', 'import', file, '--reason', 'a test', ...flags]), {
      code: 1,
      out: '',
      err: /role ADMIN requires --allow-admin/,
    });
  }
  t.equal(await cluster.mongo.collection('accounts').countDocuments({ email: 'boss@staff.vn' }), 0);
});

// Before: the key went to whichever vendor an ADMIN of any school named.
t.test('the generic key goes to no vendor but that of the environment', async (t) => {
  const preview = () =>
    cluster.request('POST', '/v1/ai/explanation/preview', {
      headers: gateway('TEACHER'),
      body: { content: '1 + 1 = ?' },
    });
  const select = (provider: string) =>
    cluster.request('PUT', '/v1/admin/ai/providers/settings', {
      headers: gateway('ADMIN'),
      body: { provider, model: 'a-model', baseUrl: models, apiKeyRef: 'AI_CLASSIFIER_API_KEY' },
    });
  for (const vendor of ['deepseek', 'anthropic', 'gemini']) {
    t.match(await select(vendor), { status: 200, data: { runtime: { status: 'degraded', apiKeyConfigured: false } } });
    t.match(await preview(), { status: 503, code: 'AI_PROVIDER_NOT_CONFIGURED' }, vendor);
  }
  t.same(keysSent, []);
  t.match(await select('openai'), { status: 200, data: { runtime: { apiKeyConfigured: true } } });
  t.match(await preview(), { status: 502 });
  t.same(keysSent, [`Bearer ${GENERIC_KEY}`], 'its own vendor receives it');
});

/** A mail program posts this form (RFC 8058). A signed token proves it, and the page of a stranger has none. */
const BY_TOKEN = '/v1/notifications/unsubscribe';

// Before: where the gateway uses cookies, a foreign page could submit an exam and empty an inbox.
t.test('no form of a foreign page is accepted on any route', async (t) => {
  const { data } = await cluster.request('GET', '/v1');
  const posts: string[] = data.routes.flatMap((route: { method: string; path: string }) =>
    route.method === 'POST' ? [route.path.replace(/[:{]\w+\}?/g, 'any-id')] : [],
  );
  t.ok(posts.length > 15, `${posts.length} routes`);
  for (const target of posts) {
    const seen = new Set<number>();
    for (const role of ['STUDENT', 'TEACHER', 'PARENT', 'ADMIN']) {
      for (const type of ['application/x-www-form-urlencoded', 'multipart/form-data; boundary=x', 'text/plain']) {
        // A gateway may add a key to every request.
        const headers = gateway(role, 'a-user', { 'content-type': type, 'idempotency-key': 'key-1' });
        for (const body of [undefined, 'a=b'])
          seen.add((await cluster.request('POST', target, { headers, body })).status);
      }
    }
    t.ok(
      [...seen].every((status) => (target === BY_TOKEN ? [400] : [401, 403, 415]).includes(status)),
      `${target}: ${[...seen]}`,
    );
  }
});

t.test('a client cannot place its requests into a trace', async (t) => {
  // Before: the `traceparent` of every client was stored, logged and passed on to neighbours.
  const [ofClient, ofGateway] = ['a', 'b'].map((digit) => digit.repeat(32));
  const login = (traceId: string | undefined, more: Headers) =>
    cluster.request('POST', '/v1/auth/login', {
      headers: { traceparent: `00-${traceId}-00f067aa0ba902b7-01`, ...more },
      body: {},
    });
  t.match(await login(ofClient, {}), { status: 400 });
  t.match(await login(ofGateway, { 'x-gateway-token': TOKENS.GATEWAY_TOKEN }), { status: 400 });
  const lines = await until('both requests are logged', async () => {
    const all = cluster.output().split('\n');
    const logged = all.filter((line) => line.includes('/v1/auth/login') && line.includes('"msg":"request"'));
    return logged.length >= 2 && all;
  });
  t.ok(lines.some((line) => line.includes(String(ofGateway))));
  t.notOk(lines.some((line) => line.includes(String(ofClient))));
});
