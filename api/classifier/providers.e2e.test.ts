import t from 'tap';
import { checkedApi } from '#testing/doors/checked-api.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { until } from '#testing/until.ts';

const STATUS = '/v1/ai/providers/status';
const SETTINGS = '/v1/admin/ai/providers/settings';
const SENTINEL = 'sk-sentinel-5d1e0c77-never-shown';

t.test('provider settings and status over HTTP', async (t) => {
  const cluster = await startCluster(t, {
    inside: true,
    workers: [],
    doors: 2,
    env: {
      SERVICES: 'classifier',
      ANTHROPIC_API_KEY: SENTINEL,
      AI_CLASSIFIER_ALLOWED_BASE_URLS: 'https://proxy.example',
    },
  });
  const call = await checkedApi((method, target, options) => cluster.request(method, target, options));
  const headers = (role = 'ADMIN', more = {}) => ({
    'x-actor-id': 'admin-1',
    'x-actor-role': role,
    'x-organization-id': 'org-1',
    ...more,
  });
  const put = (body: unknown, role = 'ADMIN') => call('PUT', SETTINGS, { body, headers: headers(role) });
  const texts: string[] = [];
  const keep = <T extends { json: unknown }>(reply: T): T => {
    texts.push(JSON.stringify(reply.json));
    return reply;
  };

  await t.test('provider routes admit admins and the admin service only', async (t) => {
    t.match(await call('GET', SETTINGS), { status: 401, json: { code: 'UNAUTHENTICATED' } });
    const noOrganization = { 'x-actor-id': 'a', 'x-actor-role': 'ADMIN' };
    t.match(await call('GET', SETTINGS, { headers: noOrganization }), { status: 401 });
    t.match(await call('GET', SETTINGS, { headers: headers('TEACHER') }), { status: 403, json: { code: 'FORBIDDEN' } });
    t.match(await put({ provider: 'mock', model: 'm' }, 'TEACHER'), { status: 403 });
    t.match(await call('GET', STATUS, { headers: noOrganization }), { status: 200 });
    t.match(await call('GET', STATUS, { headers: headers('TEACHER') }), { status: 403 });
    const service = (name: string, token: string) => ({ 'x-internal-service': name, 'x-internal-token': token });
    const token = cluster.tokens.internal;
    t.match(await call('GET', STATUS, { headers: service('admin-service', token) }), { status: 200 });
    t.match(await call('GET', STATUS, { headers: service('exam-service', token) }), { status: 401 });
    t.match(await call('GET', STATUS, { headers: service('admin-service', 'wrong') }), { status: 401 });
  });

  await t.test('the environment is in force until a setting is saved', async (t) => {
    const reply = keep(await call('GET', SETTINGS, { headers: headers() }));
    t.match(reply.json.data, {
      setting: null,
      runtime: {
        status: 'ok',
        provider: 'mock',
        model: 'mock-1',
        configurationSource: 'environment',
        apiKeyConfigured: false,
        circuit: { state: 'closed', consecutiveFailures: 0, openUntil: null, throttledUntil: null },
      },
    });
  });

  await t.test('an unknown provider, foreign key or forbidden address is not saved', async (t) => {
    const refused: [Record<string, unknown>, string][] = [
      [{ provider: 'acme', model: 'm' }, 'AI_PROVIDER_UNSUPPORTED'],
      [{ provider: 'openai', model: 'm', apiKeyRef: 'ANTHROPIC_API_KEY' }, 'AI_API_KEY_REF_NOT_ALLOWED'],
      [{ provider: 'openai', model: 'm', apiKeyRef: 'MONGODB_URL' }, 'AI_API_KEY_REF_NOT_ALLOWED'],
      [{ provider: 'openai', model: 'm', apiKeyRef: SENTINEL }, 'AI_API_KEY_REF_NOT_ALLOWED'],
      [{ provider: 'openai', model: 'm', baseUrl: '' }, 'AI_BASE_URL_NOT_ALLOWED'],
      [{ provider: 'openai', model: 'm', baseUrl: 'https://evil.example' }, 'AI_BASE_URL_NOT_ALLOWED'],
      [{ provider: 'local', model: 'm' }, 'AI_BASE_URL_NOT_ALLOWED'],
      [{ provider: 'local', model: 'm', baseUrl: 'http://169.254.169.254' }, 'AI_BASE_URL_NOT_ALLOWED'],
      [{ provider: 'openai', model: 'm', apiKey: SENTINEL }, 'VALIDATION_FAILED'],
      [{ provider: 'openai' }, 'VALIDATION_FAILED'],
      [{ provider: 'openai', model: '../x y' }, 'VALIDATION_FAILED'],
    ];
    for (const [body, code] of refused) t.match(keep(await put(body)), { status: 400, json: { code } }, code);
    t.match((await call('GET', SETTINGS, { headers: headers() })).json.data, { setting: null });
  });

  await t.test('a saved choice is in force here at once, and soon in every process', async (t) => {
    const saved = keep(await put({ provider: 'anthropic', model: 'claude-x', apiKeyRef: 'ANTHROPIC_API_KEY' }));
    t.match(saved, {
      status: 200,
      json: {
        data: {
          setting: {
            provider: 'anthropic',
            model: 'claude-x',
            baseUrl: null,
            apiKeyRef: 'ANTHROPIC_API_KEY',
            enabled: true,
            version: 1,
            updatedBy: 'admin-1',
          },
          runtime: { status: 'ok', provider: 'anthropic', configurationSource: 'database', apiKeyConfigured: true },
        },
      },
    });
    await until('the other front door has switched', async () => {
      const { json } = keep(await call('GET', STATUS, { headers: headers(), door: 2 }));
      return json.data.provider === 'anthropic';
    });
  });

  await t.test('a choice whose key variable is unset is saved as degraded', async (t) => {
    const saved = keep(
      await put({ provider: 'openai', model: 'm', apiKeyRef: 'OPENAI_API_KEY', baseUrl: 'https://proxy.example/v1/' }),
    );
    t.match(saved.json.data, {
      setting: { baseUrl: 'https://proxy.example/v1', version: 2 },
      runtime: { status: 'degraded', apiKeyConfigured: false, features: { classify: false } },
    });
  });

  await t.test('a disabled choice leaves the environment in force', async (t) => {
    const saved = keep(await put({ provider: 'openai', model: 'm', enabled: false }));
    t.match(saved.json.data, {
      setting: { enabled: false },
      runtime: { provider: 'mock', configurationSource: 'environment' },
    });
  });

  await t.test('no key is in any reply, log or document', async (t) => {
    const stored = await Promise.all(
      ['ai_provider_settings', 'ai_setting_changes', 'ai_usage_events'].map((name) =>
        cluster.mongo.collection(name).find().toArray(),
      ),
    );
    t.equal(stored[1]?.length, 3, 'the audit rows remain');
    t.match(stored[1]?.[0], {
      actorId: 'admin-1',
      organizationId: 'org-1',
      before: null,
      after: { provider: 'anthropic' },
    });
    t.notMatch([...texts, cluster.output(), JSON.stringify(stored)].join('\n'), SENTINEL);
  });
});
