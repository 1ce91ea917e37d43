import t from 'tap';
import { askedModels, GOOD, SENTINEL_KEY, settingsFor, TASK, TERMS } from '#testing/models/asked-models.ts';
import { answerJson, goodBody, refusedWith, servedModels } from '#testing/models/served-models.ts';

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
  await t.rejects(asked.models.ask(TASK, TERMS, new AbortController().signal), { message: 'FORBIDDEN_HOST' });
});
