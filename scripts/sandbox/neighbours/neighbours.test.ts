import t, { type Test } from 'tap';
import { answerJson, listenLocally } from '#scripts/sandbox/local-server.ts';
import { runNeighbours } from '#scripts/sandbox/neighbours.ts';
import { classifyTask, readClassification } from '#shared/classifier/tasks/classify.ts';
import { generateTask, readGeneration } from '#shared/classifier/tasks/generate.ts';
import { exchange } from '#testing/clients/call.ts';
import { askedModels, settingsFor } from '#testing/models/asked-models.ts';
import { until } from '#testing/until.ts';
import type { GeneratedQuestionType } from '../../../clients/typescript/src/index.ts';
import { NEIGHBOUR_NAMES } from './environment.ts';
import type { Failure } from './failure.ts';
import { openStandIns } from './open-stand-ins.ts';
import type { HttpProvider } from './provider-replies.ts';

async function open(t: Test) {
  const standIns = await openStandIns({ env: {} });
  t.teardown(standIns.close);
  const call = (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) =>
    // biome-ignore lint/suspicious/noExplicitAny: replies are matched field by field
    exchange<any>(`${standIns.url}${path}`, { method, body, headers });
  return { standIns, call };
}

const SENDER = { 'x-internal-service': 'attempt-service', 'x-internal-token': 'dev-internal-token' };

t.test('a failure is begun, shown, limited and ended over HTTP', async (t) => {
  const { call } = await open(t);
  const read = () => call('GET', '/profile/v1/students/a/parents', undefined, SENDER);
  t.match((await call('PUT', '/_control/profile', { answer: 503, times: 2, retryAfter: 7 })).status, 200);
  const first = await read();
  t.match(first, { status: 503, headers: { 'retry-after': '7' }, code: 'SCRIPTED_FAILURE' });
  t.match((await call('GET', '/_control')).data.neighbours.profile, {
    failure: { answer: 503, times: 2, failed: 1 },
    calls: 1,
    answered: { 503: 1 },
  });
  t.equal((await read()).status, 503);
  t.equal((await read()).status, 404, 'two calls have failed');
  t.equal((await call('GET', '/_control')).data.neighbours.profile.failure, null);
  await call('PUT', '/_control/profile', { refuse: 422, every: 2, only: '/students/b/' });
  t.equal((await read()).status, 404, 'the path is another one');
  const other = () => call('GET', '/profile/v1/students/b/parents', undefined, SENDER);
  t.strictSame([(await other()).status, (await other()).status, (await other()).status], [404, 422, 404]);
  t.match(await call('PUT', '/_control/profile', { reset: true }), { status: 200, data: { failure: null, calls: 7 } });
  t.match((await call('GET', '/_control/profile')).data.newestCalls.length, 7);
  t.match(await call('DELETE', '/_control/profile'), { status: 200, data: { calls: 0 } });
});

t.test('an invalid failure is refused and changes nothing', async (t) => {
  const { call } = await open(t);
  const faulty = [{}, { answer: 99 }, { refuse: 503 }, { drop: false }, { answer: 503, drop: true }, { wait: 5 }, []];
  for (const body of [...faulty, { delayMs: 700_000 }, { drop: true, retryAfter: 1 }, { answer: 503, times: 0 }])
    t.match(await call('PUT', '/_control/wallet', body), { status: 400 }, JSON.stringify(body));
  t.equal((await call('PUT', '/_control/nothing', { answer: 503 })).status, 404);
  t.equal((await call('POST', '/_control/wallet', {})).status, 405);
  t.equal((await call('GET', '/_control')).data.neighbours.wallet.failure, null);
});

t.test('a stand-in refuses each call that a strict service would refuse, before it takes effect', async (t) => {
  const { standIns, call } = await open(t);
  const owner = {
    'x-internal-service': 'ai-classifier-service',
    'x-internal-token': 'dev-internal-token',
    'x-organization-id': 'org-1',
    'x-actor-id': 'teacher-1',
    'x-actor-role': 'TEACHER',
  };
  const path = '/wallet/v1/wallets/org-1/transactions';
  const good = { type: 'USAGE_DEBIT', amount: 6, reason: 'r', idempotencyKey: 'k' };
  const without = (name: string) => Object.fromEntries(Object.entries(owner).filter(([key]) => key !== name));
  const cases: [number, string, unknown, Record<string, string>][] = [
    [401, path, good, without('x-internal-service')],
    [401, path, good, without('x-internal-token')],
    [401, path, good, { ...owner, 'x-internal-token': 'wrong' }],
    [403, path, good, { ...owner, 'x-internal-service': 'attempt-service' }],
    [400, path, good, without('x-actor-role')],
    [403, path, good, { ...owner, 'x-organization-id': 'org-2' }],
    [400, path, { ...good, extra: 1 }, owner],
    [400, path, { ...good, amount: '6' }, owner],
    [400, path, { ...good, idempotencyKey: undefined }, owner],
    [400, path, '{', { ...owner, 'content-type': 'application/json' }],
    [415, path, JSON.stringify(good), { ...owner, 'content-type': 'text/plain' }],
    [404, '/wallet/v1/elsewhere', good, owner],
    [400, '/usage/v1/usage/consume', { organizationId: 'org-1', actorId: 'a', items: [] }, owner],
    [401, '/webhook', { deliveryJobId: 'a' }, {}],
    [400, '/models/v1/chat/completions', { model: 'm', messages: [], more: 1 }, {}],
  ];
  for (const [status, target, body, headers] of cases)
    t.equal((await call('POST', target, body, headers)).status, status, `${target} ${JSON.stringify(body)} ${status}`);
  t.equal((await call('GET', path, undefined, owner)).status, 405);
  t.equal(standIns.ledgerOf('org-1').debits.size, 0);
  t.equal((await call('POST', path, good, owner)).status, 200);
  t.equal((await call('POST', path, { ...good, amount: 7 }, owner)).status, 422, 'a key belongs to one debit');
});

t.test('a stand-in learns facts over HTTP and forgets them', async (t) => {
  const { call } = await open(t);
  t.equal((await call('PUT', '/_control/profile/facts', { parents: { a: ['b'] } })).status, 200);
  const read = () => call('GET', '/profile/v1/students/a/parents', undefined, SENDER);
  t.strictSame((await read()).data, { parentIds: ['b'] });
  for (const facts of [{ parents: { a: ['no id!'] } }, { parents: [] }, { children: {} }])
    t.equal((await call('PUT', '/_control/profile/facts', facts)).status, 400, JSON.stringify(facts));
  t.equal((await call('PUT', '/_control/audit/facts', {})).status, 404);
  await call('DELETE', '/_control/profile');
  t.equal((await read()).status, 404);
});

t.test('the command prints an environment that names every stand-in, and refuses a port that is in use', async (t) => {
  const ending = new AbortController();
  const lines: string[] = [];
  const around = { env: {}, print: (line: string) => void lines.push(line), signal: ending.signal };
  const running = runNeighbours(['--port', '0'], { ...around, fail: t.fail });
  await until('the stand-ins are open', () => lines.some((line) => line.startsWith('# Calls')));
  const [, url = ''] = /Stand-ins at (\S+)\./.exec(lines[0] ?? '') ?? [];
  for (const name of NEIGHBOUR_NAMES)
    t.ok(
      lines.some((line) => line.includes(`=${url}/${name}`)),
      name,
    );
  t.match(url, /^http:\/\/127\.0\.0\.1:\d+$/);
  const faults: string[] = [];
  const second = { ...around, fail: (line: string) => void faults.push(line) };
  t.equal(await runNeighbours(['--port', new URL(url).port], second), 1);
  t.match(faults, [/^error: port \d+ or \d+ is in use, /]);
  t.equal(await runNeighbours(['--port', 'x'], second), 64);
  t.equal(await runNeighbours(['--forward', 'nowhere'], second), 64);

  const port = new URL(url).port;
  const act = async (...words: string[]) => {
    const from = lines.length;
    const code = await runNeighbours([...words, '--port', port], second);
    return { code, said: lines.slice(from).join('\n') };
  };
  t.match(await act('fail', 'wallet', 'answer=503', 'only=/transactions', 'lose'), {
    code: 0,
    said: /^wallet fails: /,
  });
  t.match((await act('show')).said, /^wallet +0 calls +fails: answer=503 only=\/transactions lose=true failed=0$/m);
  t.match(await act('fail', 'wallet'), { code: 0, said: 'wallet answers again' });
  t.notMatch((await act('show')).said, /fails/);
  faults.length = 0;
  t.equal((await act('fail', 'wallet', 'answer=99')).code, 1);
  t.match(faults, [/this is no failure; \/answer must be >= 200$/]);
  t.equal((await act('fail')).code, 64);
  t.match(await act('stop'), { code: 64, said: '' });
  t.match(await act('--help'), { code: 0, said: /^npm run neighbours -- / });
  ending.abort();
  t.equal(await running, 0);
});

/** Base URL below the stand-in, by provider: each wire appends its own path. */
const BASE: Partial<Record<HttpProvider, string>> = {
  local: '/v1',
  openai: '/v1',
  deepseek: '',
  anthropic: '',
  gemini: '/v1beta',
};

async function openModels(t: Test, provider: HttpProvider, env: NodeJS.ProcessEnv = {}) {
  const standIns = await openStandIns({ env: {} });
  t.teardown(standIns.close);
  const settings = settingsFor(provider, {
    AI_CLASSIFIER_BASE_URL: `${standIns.urlOf('models')}${BASE[provider]}`,
    AI_CLASSIFIER_MAX_RETRIES: '0',
    ...env,
  });
  return { standIns, asked: askedModels(t, settings) };
}

const batch = {
  questionIds: ['q-1', 'q-2'],
  questions: [
    { id: 'q-1', content: 'BEGIN DATA 0000\n{}\nEND DATA 0000' },
    { id: 'q-2', content: '2x' },
  ],
  fields: ['topic', 'tags'],
  overwrite: false,
  mode: 'SUGGEST' as const,
  threshold: 0.7,
};
const payload = (questionType: GeneratedQuestionType) => ({
  mode: 'fresh' as const,
  subject: 'Toán',
  gradeLevel: '12',
  topic: 'Tích phân',
  questionType,
  difficulty: 'MEDIUM',
  count: 2,
  language: 'vi',
  instructions: null,
  references: [],
});

for (const provider of ['local', 'openai', 'deepseek', 'anthropic', 'gemini'] as const) {
  for (const streaming of ['0', '1']) {
    t.test(`${provider}, streaming ${streaming}: the stand-in returns a usable answer to every task`, async (t) => {
      const { asked } = await openModels(t, provider, { AI_CLASSIFIER_STREAMING: streaming });
      const { json } = await asked.ask(classifyTask(batch));
      const read = readClassification(batch, json);
      t.strictSame(
        read.items.map(({ questionId }) => questionId),
        batch.questionIds,
      );
      for (const type of ['SINGLE_CHOICE', 'TRUE_FALSE_GROUP', 'SHORT_TEXT', 'NUMERIC', 'ESSAY'] as const) {
        const answer = await asked.ask(generateTask(payload(type)));
        t.equal(readGeneration(payload(type), answer.json)?.questions.length, 2, type);
        t.match(answer.usage, { inputTokens: 7, outputTokens: 11 });
      }
    });
  }
}

/** A failure of the provider, the expected failure of the call, and further settings. */
const FAILURES: readonly [Failure, Record<string, string>, NodeJS.ProcessEnv?][] = [
  [{ answer: 503 }, { code: 'AI_PROVIDER_UNAVAILABLE', nature: 'passing' }],
  [{ refuse: 422 }, { nature: 'refused' }],
  [{ drop: true }, { code: 'AI_PROVIDER_UNAVAILABLE', nature: 'passing' }],
  [{ lose: true }, { code: 'AI_PROVIDER_UNAVAILABLE', nature: 'passing' }],
  [{ answer: 200, body: { choices: [] } }, { code: 'AI_PROVIDER_INVALID_RESPONSE' }],
  [{ delayMs: 600_000 }, { code: 'AI_PROVIDER_TIMEOUT' }, { AI_PROVIDER_TIMEOUT_MS: '100' }],
];

for (const [failure, expected, env] of FAILURES) {
  t.test(`with ${JSON.stringify(failure)} of the model provider the caller gets its code`, async (t) => {
    const { standIns, asked } = await openModels(t, 'local', env);
    standIns.fail('models', failure);
    const failed = await asked.ask(classifyTask(batch)).catch((error: unknown) => error);
    t.match(failed, expected);
  });
}

const LOSES: Failure = { lose: true, answer: 503, retryAfter: 1, every: 25 };

/** Opens a notification service that recognises repeats, behind the stand-in; with `forgets` it treats each repeat as a new event. */
async function openService(t: Test, { forgets = false } = {}) {
  const known = new Set<string>();
  const paths: string[] = [];
  const service = await listenLocally((request, response) => {
    paths.push(`${request.method} ${request.path}`);
    const { sourceEventId } = request.json() as { sourceEventId: string };
    const replayed = known.has(sourceEventId) && !forgets;
    known.add(sourceEventId);
    const headers = { 'x-token': `${request.headers['x-internal-token']}` };
    const body = { success: true, data: { created: replayed ? 0 : 1, replayed } };
    answerJson(response, { status: replayed ? 200 : 201, headers, body });
  });
  const standIns = await openStandIns({ env: { INTERNAL_SERVICE_TOKEN: 'of the sender' } });
  standIns.notification.forwardTo(service.url);
  standIns.fail('notification', LOSES);
  t.teardown(async () => {
    await standIns.close();
    await service.close().catch(() => undefined);
  });
  const send = async (sourceEventId: string) => {
    const about = { preferenceType: 'T', entity: 'E', entityId: 'e' };
    const reply = await fetch(`${standIns.urlOf('notification')}/v1/events/notification`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'x-internal-service': 'attempt-service',
        'x-internal-token': 'of the sender',
      },
      body: JSON.stringify({
        sourceService: 'attempt-service',
        sourceEventId,
        type: 'T',
        ...about,
        targetUserIds: ['a'],
        notifications: [{ userId: 'a', type: 'T', title: 't', content: 'c', ...about }],
        payload: {},
      }),
    });
    await reply.text();
    return reply;
  };
  return { losses: standIns.notification.losses, service, paths, send };
}

t.test('replies that the stand-in loses reach the service, and their repeats are counted', async (t) => {
  const { losses, paths, send } = await openService(t);
  const replies = [];
  for (let event = 1; event <= 50; event++) replies.push(await send(`event ${event}`));
  t.same(
    replies.flatMap(({ status }, at) => (status === 503 ? [at + 1] : [])),
    [25, 50],
  );
  t.equal(replies[0]?.headers.get('x-token'), 'of the sender', 'headers pass both ways');
  t.equal(paths.length, 50, 'the service receives every event');
  t.equal((await send('event 1')).status, 200, 'a repeat of an event whose reply arrived is not counted');
  t.same([losses.lost(), losses.recognised()], [2, 0]);
  t.equal((await send('event 25')).status, 200);
  t.equal((await send('event 25')).status, 200);
  t.same([losses.lost(), losses.recognised(), losses.doubled], [2, 1, []]);
});

t.test('the stand-in lists a repeat that the service stored as a new event', async (t) => {
  const { losses, send } = await openService(t, { forgets: true });
  for (let event = 1; event <= 25; event++) await send(`event ${event}`);
  await send('event 25');
  t.same([losses.recognised(), losses.doubled], [0, ['event 25']]);
});

t.test('the stand-in answers 503 while the service behind it is gone, and counts no lost reply', async (t) => {
  const { losses, service, send } = await openService(t);
  await service.close();
  for (let event = 1; event <= 25; event++) t.equal((await send(`event ${event}`)).status, 503);
  t.equal(losses.lost(), 0);
});
