import type { LookupAddress } from 'node:dns';
import t from 'tap';
import { loadSchemas } from '#infra/schema/validator.ts';
import { mockAnswer } from '#shared/classifier/mock.ts';
import { type TaskPayloads, taskRequest } from '#shared/classifier/tasks/envelope.ts';
import type { ModelAnswer, ModelTask } from '#shared/classifier/tasks/task.ts';
import {
  answerJson,
  askedModels,
  GOOD,
  goodBody,
  refusedWith,
  SENTINEL_KEY,
  servedModels,
  settingsFor,
  TASK,
  TERMS,
} from '#testing/models/asked-models.ts';
import { guardedLookup, isForbiddenAddress } from './guarded-agent.ts';
import { openTaskModels } from './perform-task.ts';

const NEVER = new AbortController().signal;

t.test('a running call continues with its provider after a switch', async (t) => {
  const { asked } = await servedModels(t, (response) => {
    asked.models.select({ provider: 'mock', model: null, baseUrl: null, apiKeyRef: null });
    answerJson(response);
  });
  t.match(await asked.ask(), { provider: 'local', json: GOOD });
  t.match(await asked.ask(), { provider: 'mock' });
  t.match(await asked.models.status(), { provider: 'mock', configurationSource: 'database' });
  asked.models.select(null);
  t.match(await asked.models.status(), { provider: 'local', configurationSource: 'environment' });
});

t.test('an unusable provider is refused before any call', async (t) => {
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
    [{ AI_CLASSIFIER_BASE_URL: undefined }, 'NO_BASE_URL'],
    [{ AI_CLASSIFIER_BASE_URL: 'http://models.example/v1' }, 'NOT_HTTPS'],
    [{ AI_CLASSIFIER_BASE_URL: 'http://169.254.169.254' }, 'FORBIDDEN_HOST'],
  ];
  for (const [env, fault] of cases) {
    const asked = askedModels(t, settingsFor('local', env));
    await t.rejects(asked.ask(), { ...refusedWith('AI_PROVIDER_NOT_CONFIGURED', 'refused'), message: fault });
    t.match(await asked.models.status(), { status: 'degraded', features: { classify: false } });
    t.strictSame(asked.events, []);
  }
});

t.test('local needs a base URL alone: its model is called `default`', async (t) => {
  const bodies: unknown[] = [];
  const unset = { AI_CLASSIFIER_MODEL: undefined, AI_CLASSIFIER_API_KEY: undefined };
  const { asked } = await servedModels(
    t,
    (response, request) => {
      bodies.push(request.json());
      answerJson(response);
    },
    unset,
  );
  t.match(await asked.models.status(), { status: 'ok', provider: 'local', model: 'default' });
  t.match(await asked.ask(), { provider: 'local', json: GOOD });
  t.match(bodies, [{ model: 'default' }]);
});

t.test('local is called without a key, but refused if its named key is unset', async (t) => {
  const { asked, origin } = await servedModels(
    t,
    (response, request) => answerJson(response, goodBody.slice(request.headers.authorization ? 1 : 0)),
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

t.test('the generic key and the base URL apply only to the provider of the environment', async (t) => {
  const keys: unknown[] = [];
  const { asked, origin } = await servedModels(
    t,
    (response, request) => {
      keys.push(request.headers.authorization);
      answerJson(response);
    },
    { OPENAI_API_KEY: undefined },
  );
  await asked.ask();
  t.strictSame(keys, [`Bearer ${SENTINEL_KEY}`], 'local, at its base URL alone');
  const selection = { provider: 'openai', model: 'm', baseUrl: null } as const;
  for (const apiKeyRef of [null, 'AI_CLASSIFIER_API_KEY'] as const) {
    asked.models.select({ ...selection, apiKeyRef });
    t.match(await asked.models.status(), { status: 'degraded', apiKeyConfigured: false });
    await t.rejects(asked.ask(), { ...refusedWith('AI_PROVIDER_NOT_CONFIGURED', 'refused'), message: 'NO_KEY' });
  }
  asked.models.select({ ...selection, baseUrl: `${origin}/v1`, apiKeyRef: null });
  await t.rejects(asked.ask(), { message: 'ORIGIN_NOT_ALLOWED' });
  t.equal(keys.length, 1);
});

t.test("a listed origin receives the provider's own key and not the generic key", async (t) => {
  const keys: unknown[] = [];
  const { asked, origin } = await servedModels(t, (response, request) => {
    keys.push(request.headers.authorization);
    answerJson(response);
  });
  const settings = settingsFor('local', { OPENAI_API_KEY: 'sk-own', AI_CLASSIFIER_ALLOWED_BASE_URLS: origin });
  const listed = askedModels(t, settings);
  listed.models.select({ provider: 'openai', model: 'm', baseUrl: `${origin}/v1`, apiKeyRef: null });
  await listed.ask();
  t.strictSame(keys, ['Bearer sk-own']);
  t.match(listed.events, [{ provider: 'openai', baseUrl: `${origin}/v1`, outcome: 'success' }]);
  t.strictSame(asked.events, []);
});

t.test('a base URL with a metadata address is not called', async (t) => {
  const asked = askedModels(
    t,
    settingsFor('local', {
      AI_CLASSIFIER_BASE_URL: 'https://[::ffff:a9fe:a9fe]/v1',
      AI_CLASSIFIER_MAX_RETRIES: '0',
    }),
  );
  await t.rejects(asked.models.ask(TASK, TERMS, NEVER), { message: 'FORBIDDEN_HOST' });
});

const SCOPE = { organizationId: 'org-1', actorId: 'teacher-1', requestId: 'req-1', jobId: null, batchIndex: null };
const CLASSIFY: TaskPayloads['classify'] = {
  questionIds: ['q-1', 'q-2'],
  fields: ['topic'],
  overwrite: false,
  mode: 'SUGGEST',
  threshold: 0.7,
};

/** Opens task models whose provider answers with what `answer` returns, and records its calls. */
function taskModels(answer: (task: ModelTask, signal: AbortSignal) => unknown = mockAnswer) {
  const asked: { task: ModelTask; usage: object; features: object }[] = [];
  const listeners = new Map<string, Set<() => void>>();
  const models = openTaskModels({
    async ask(task, { usageEvent: usage, features }, signal): Promise<ModelAnswer> {
      asked.push({ task, usage, features });
      const json = await answer(task, signal);
      return { json, usage: { inputTokens: 1, outputTokens: null }, provider: 'mock', model: 'mock-1' };
    },
    listen(key, cancelled) {
      listeners.set(key, (listeners.get(key) ?? new Set()).add(cancelled));
      return () => listeners.get(key)?.delete(cancelled);
    },
    schemas: loadSchemas(),
    now: () => Date.UTC(2026, 10, 27),
  });
  const cancel = (key: string) => void listeners.get(key)?.forEach((cancelled) => void cancelled());
  return { models, asked, cancel, listening: (key: string) => listeners.get(key)?.size ?? 0 };
}

t.test('the prompt is made from the payload, and the usage event and features from their members', async (t) => {
  const { models, asked } = taskModels();
  const request = taskRequest('classify', CLASSIFY, { ...SCOPE, taskId: 'j-1:0', jobId: 'j-1', batchIndex: 0 });
  const result = await models.perform(request, NEVER);
  t.match(result, {
    taskId: 'j-1:0',
    kind: 'classify',
    provider: 'mock',
    usage: { inputTokens: 1, outputTokens: null },
    finishedAt: '2026-11-27T00:00:00.000Z',
    classify: { items: [{ questionId: 'q-1' }, { questionId: 'q-2' }], errors: [] },
  });
  const [{ task, usage, features } = {}] = asked;
  t.match(task?.data, { questionIds: ['q-1', 'q-2'], fields: ['topic'], overwrite: false });
  t.strictSame(usage, request.usageEvent);
  t.strictSame(features, request.features);
});

t.test('a request that does not fit its schema calls no model', async (t) => {
  const { models, asked } = taskModels();
  const scope = { ...SCOPE, taskId: 't-1' };
  const tooMany = { ...CLASSIFY, questionIds: ['1', '2', '3', '4', '5', '6'] };
  await t.rejects(models.perform(taskRequest('classify', tooMany, scope), NEVER), { message: /classify\/questionIds/ });
  const mixed = { ...taskRequest('classify', CLASSIFY, scope), explain: { content: 'x' } };
  await t.rejects(models.perform(mixed, NEVER), { message: /exactly the member/ });
  t.strictSame(asked, []);
});

t.test("a result that does not fit its schema is the provider's invalid answer", async (t) => {
  const long = { text: 'x'.repeat(20_001), steps: ['y'] };
  const { models } = taskModels(() => long);
  const request = taskRequest('explain', { content: '1 + 1' }, { ...SCOPE, taskId: 't-1' });
  await t.rejects(models.perform(request, NEVER), {
    name: 'ProviderFailure',
    code: 'AI_PROVIDER_INVALID_RESPONSE',
    nature: 'refused',
    message: /explain\/text must have at most 20000 characters/,
  });
});

t.test('a cancellation aborts every task with its key and no other, and no task listens afterwards', async (t) => {
  const hanging = (_task: ModelTask, signal: AbortSignal) =>
    new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  const { models, cancel, listening } = taskModels(hanging);
  const ofJob = (jobId: string, batchIndex: number) =>
    models.perform(
      taskRequest('classify', CLASSIFY, {
        ...SCOPE,
        taskId: `${jobId}:${batchIndex}`,
        cancellationKey: jobId,
        jobId,
        batchIndex,
      }),
      NEVER,
    );
  const cancelled = [ofJob('j-1', 0), ofJob('j-1', 1)].map((task) =>
    t.rejects(task, { name: 'TaskCancelled', message: 'task cancelled: j-1' }),
  );
  const other = ofJob('j-2', 0);
  t.equal(listening('j-1'), 2);
  cancel('j-1');
  await Promise.all(cancelled);
  t.strictSame([listening('j-1'), listening('j-2')], [0, 1]);
  cancel('j-2');
  await t.rejects(other, { name: 'TaskCancelled' });

  const gone = new AbortController();
  const preview = models.perform(taskRequest('explain', { content: 'x' }, { ...SCOPE, taskId: 't-1' }), gone.signal);
  gone.abort(new Error('the client left'));
  await t.rejects(preview, { message: 'the client left' });
  t.equal(listening('preview:t-1'), 0);
});

/** Returns the result of the guarded lookup for a name that resolves to these addresses. */
function looked(addresses: string[], options: { allowsPrivate: boolean; all?: boolean; hostname?: string }) {
  const found = addresses.map((address): LookupAddress => ({ address, family: address.includes(':') ? 6 : 4 }));
  const resolve = (_name: string, _options: unknown, answer: (error: null, found: LookupAddress[]) => void) =>
    answer(null, found);
  return new Promise((settle) => {
    guardedLookup(options, resolve as never)(
      options.hostname ?? 'models.example',
      { all: options.all ?? true },
      (error, ...rest) => settle(error === null ? rest : error),
    );
  });
}

t.test('the guarded lookup returns the addresses that it has checked', async (t) => {
  t.strictSame(await looked(['93.184.216.34', '2606:4700::1'], { allowsPrivate: false }), [
    [
      { address: '93.184.216.34', family: 4 },
      { address: '2606:4700::1', family: 6 },
    ],
  ]);
  t.strictSame(await looked(['93.184.216.34'], { allowsPrivate: false, all: false }), ['93.184.216.34', 4]);
});

t.test('one private address refuses all addresses, unless an operator listed the origin', async (t) => {
  for (const address of ['127.0.0.1', '10.0.0.5', '::1', 'fd12::1', '::ffff:192.168.0.1']) {
    t.ok(isForbiddenAddress(await looked(['93.184.216.34', address], { allowsPrivate: false })), address);
    t.notOk(isForbiddenAddress(await looked(['93.184.216.34', address], { allowsPrivate: true })), address);
  }
});

t.test('link-local and metadata addresses are refused, even for a listed origin', async (t) => {
  for (const address of ['169.254.169.254', 'fe80::1', '::ffff:169.254.169.254', '0.0.0.0', '100.100.100.200']) {
    t.ok(isForbiddenAddress(await looked([address], { allowsPrivate: true })), address);
  }
  const hostname = 'metadata.google.internal';
  t.ok(isForbiddenAddress(await looked(['93.184.216.34'], { allowsPrivate: true, hostname })));
});

t.test('a name without an address fails with ENOTFOUND', async (t) => {
  t.match(await looked([], { allowsPrivate: true }), { code: 'ENOTFOUND' });
});

t.test('a forbidden address is recognized as the cause of a fetch error', async (t) => {
  const reason = await looked(['169.254.169.254'], { allowsPrivate: true });
  t.ok(isForbiddenAddress(new TypeError('fetch failed', { cause: reason })));
  t.notOk(isForbiddenAddress(new TypeError('fetch failed')));
});
