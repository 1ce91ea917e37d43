import t from 'tap';
import { readConfig, secretsOf } from '#infra/config/config.ts';
import { configFaults, MONGODB_URL, PRODUCTION } from '#testing/config-faults.ts';

t.test('a production front door of the notification service requires a token for every sender', async (t) => {
  const { INTERNAL_SERVICE_TOKEN, ...rest } = PRODUCTION;
  const env = { ...rest, SERVICES: 'notification' };
  t.match(configFaults(env), [
    /^NOTIFICATION_INTERNAL_SERVICE_TOKEN: no token for admin-service, attempt-service, auth-service, bff-/,
  ]);
  t.match(configFaults({ ...env, NOTIFICATION_TOKEN_EXAM_SERVICE: INTERNAL_SERVICE_TOKEN }), [
    /for admin-service.*classroom-service, wanted/,
  ]);
  t.strictSame(configFaults({ ...env, NOTIFICATION_INTERNAL_SERVICE_TOKEN: INTERNAL_SERVICE_TOKEN }), []);
  t.strictSame(configFaults({ ...env, INTERNAL_SERVICE_TOKEN }), []);
  t.strictSame(configFaults({ ...env, SERVICES: 'attempt' }), []);
  const own = { NOTIFICATION_TOKEN_EXAM_SERVICE: 'e', NOTIFICATION_TOKEN_BFF_SERVICE: '', INTERNAL_SERVICE_TOKEN: 'i' };
  t.match(readConfig({ MONGODB_URL, ...own }).notification.senderTokens, {
    'exam-service': ['e'],
    'admin-service': ['i'],
    'bff-service': undefined,
  });
});

const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const EARLIER = 'whsec_ZWFybGllciBzZWNyZXQgb2YgdGhlIHRlc3QgLi4=';

t.test('the webhook channel requires an https or loopback URL and a secret', async (t) => {
  const env = { MONGODB_URL, NOTIFICATION_CHANNELS: 'log, webhook', NOTIFICATION_WEBHOOK_SECRET: SECRET };
  const at = (NOTIFICATION_WEBHOOK_URL: string) => ({ ...env, NOTIFICATION_WEBHOOK_URL });
  for (const url of [
    'https://hooks.example/in?a=1',
    'http://127.0.0.1:8080/',
    'http://localhost/x',
    'http://[::1]:1/',
  ]) {
    t.strictSame(readConfig(at(url)).notification.webhook, { url, secrets: [SECRET], timeoutMs: 10_000 });
  }
  for (const url of ['http://hooks.example/', 'ftp://127.0.0.1/', 'https://u:p@hooks.example/', 'https://h/#f', 'x']) {
    t.match(configFaults(at(url))[0], /^NOTIFICATION_WEBHOOK_URL: set to a value not shown here/, url);
  }
  t.match(configFaults({ MONGODB_URL, NOTIFICATION_CHANNELS: 'webhook' }), [
    /WEBHOOK_URL: not set/,
    /WEBHOOK_SECRET: not set/,
  ]);
  t.match(configFaults({ MONGODB_URL, NOTIFICATION_CHANNELS: 'mail' }), [/^NOTIFICATION_CHANNELS: .*log, webhook/]);
  t.equal(readConfig({ MONGODB_URL, NOTIFICATION_CHANNELS: '' }).notification.channels.size, 0);
});

t.test('a malformed webhook secret is a fault at start that never quotes the secret', async (t) => {
  const env = {
    MONGODB_URL,
    NOTIFICATION_CHANNELS: 'webhook',
    NOTIFICATION_WEBHOOK_URL: 'https://hooks.example/in',
    NOTIFICATION_WEBHOOK_SECRET: SECRET,
  };
  const wanted = 'set to a value not shown here, wanted whsec_ and the base64 of';
  for (const name of ['NOTIFICATION_WEBHOOK_SECRET', 'NOTIFICATION_WEBHOOK_SECRET_PREVIOUS']) {
    for (const secret of ['hunter2', SECRET.slice('whsec_'.length), 'whsec_', 'whsec_not base64', 'whsec_hunter2']) {
      const faults = configFaults({ ...env, [name]: secret });
      t.equal(faults.length, 1, secret);
      t.match(faults[0]?.slice(0, name.length + wanted.length + 2), `${name}: ${wanted}`);
      t.notMatch(faults[0], /hunter2|not base64|MfKQ9r8/);
      t.equal(configFaults({ MONGODB_URL, [name]: secret }).length, 1, 'where the channel is off too');
    }
  }
  const webhookOf = (more: NodeJS.ProcessEnv) => readConfig({ ...env, ...more }).notification.webhook?.secrets;
  t.strictSame(webhookOf({}), [SECRET]);
  t.strictSame(webhookOf({ NOTIFICATION_WEBHOOK_SECRET_PREVIOUS: EARLIER }), [SECRET, EARLIER], 'the new one first');
  t.strictSame(webhookOf({ NOTIFICATION_WEBHOOK_SECRET_PREVIOUS: '' }), [SECRET]);
  t.match(configFaults({ ...env, NOTIFICATION_WEBHOOK_SECRET: '' }), [/^NOTIFICATION_WEBHOOK_SECRET: not set, wanted/]);
});

t.test('production requires a webhook key of at least 24 bytes', async (t) => {
  const env = { ...PRODUCTION, SERVICES: 'attempt' };
  const of = (bytes: number) => `whsec_${Buffer.alloc(bytes, 1).toString('base64')}`;
  t.match(configFaults({ ...env, NOTIFICATION_WEBHOOK_SECRET: of(23) }), [/at least 24 bytes/]);
  t.strictSame(configFaults({ ...env, NOTIFICATION_WEBHOOK_SECRET: of(24) }), []);
});

t.test('every webhook secret is among the secrets that the log redacts', async (t) => {
  const config = readConfig({
    MONGODB_URL,
    NOTIFICATION_CHANNELS: 'webhook',
    NOTIFICATION_WEBHOOK_URL: 'https://hooks.example/in',
    NOTIFICATION_WEBHOOK_SECRET: SECRET,
    NOTIFICATION_WEBHOOK_SECRET_PREVIOUS: EARLIER,
  });
  t.ok([SECRET, EARLIER].every((secret) => secretsOf(config).includes(secret)));
});
