import t from 'tap';
import { readConfig, secretsOf } from '#infra/config/config.ts';
import { configFaults, MONGODB_URL } from '#testing/config-faults.ts';

t.test('provider keys are secrets, and allowed base URLs are origins only', async (t) => {
  const keys = { OPENAI_API_KEY: 'sk-1', AI_CLASSIFIER_API_KEY: 'sk-2', GEMINI_API_KEY: '' };
  const config = readConfig(
    {
      MONGODB_URL,
      ...keys,
      AI_CLASSIFIER_ALLOWED_BASE_URLS: 'https://a.example:8443, http://127.0.0.1:1',
    },
    'cluster',
  );
  const places = readConfig(
    { MONGODB_URL, OPENAI_BASE_URL: 'https://proxy.example/v1', LOCAL_MODEL: 'qwen' },
    'cluster',
  ).classifier.places;
  t.match(places, { openai: { baseUrl: 'https://proxy.example/v1', model: null }, local: { model: 'qwen' } });
  t.strictSame(config.classifier.keys, { OPENAI_API_KEY: 'sk-1', AI_CLASSIFIER_API_KEY: 'sk-2', GEMINI_API_KEY: '' });
  t.notOk(secretsOf(config).includes(''));
  t.equal(config.classifier.baseUrl, null);
  t.equal(
    readConfig({ MONGODB_URL, AI_CLASSIFIER_BASE_URL: '' }, 'cluster').classifier.baseUrl,
    '',
    'an empty variable counts as set',
  );
  t.strictSame(config.classifier.allowedOrigins, ['https://a.example:8443', 'http://127.0.0.1:1']);
  t.ok(['sk-1', 'sk-2'].every((key) => secretsOf(config).includes(key)));
  for (const origin of ['https://a.example/', 'https://a.example/v1', 'a.example', 'https://u@a.example']) {
    t.match(configFaults({ MONGODB_URL, AI_CLASSIFIER_ALLOWED_BASE_URLS: origin }), [
      /^AI_CLASSIFIER_ALLOWED_BASE_URLS/,
    ]);
  }
  t.equal(
    readConfig({ MONGODB_URL, AI_CLASSIFIER_TIMEOUT_MS: '5', AI_PROVIDER_TIMEOUT_MS: '7' }, 'cluster').classifier
      .timeoutMs,
    5,
  );
  t.equal(readConfig({ MONGODB_URL, AI_PROVIDER_TIMEOUT_MS: '7' }, 'cluster').classifier.timeoutMs, 7);
  t.match(
    configFaults({ MONGODB_URL, AI_CLASSIFIER_TIMEOUT_MS: '5', AI_PROVIDER_TIMEOUT_MS: '0' }),
    [/^AI_PROVIDER_TIMEOUT_MS/],
    'the overridden timeout is checked as well',
  );
});
