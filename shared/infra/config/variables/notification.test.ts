import t from 'tap';
import { readConfig } from '#infra/config/config.ts';
import { configFaults, MONGODB_URL, REDIS_URL } from '#testing/config-faults.ts';

t.test('a production front door of the notification service needs a token for every sender', async (t) => {
  const env = { NODE_ENV: 'production', MONGODB_URL, REDIS_URL, SERVICES: 'notification' };
  t.match(configFaults(env), [
    /^NOTIFICATION_INTERNAL_SERVICE_TOKEN: no token for admin-service, attempt-service, bff-/,
  ]);
  t.match(configFaults({ ...env, NOTIFICATION_TOKEN_EXAM_SERVICE: 'e' }), [
    /for admin-service.*classroom-service, wanted/,
  ]);
  t.strictSame(configFaults({ ...env, NOTIFICATION_INTERNAL_SERVICE_TOKEN: 't' }), []);
  t.strictSame(configFaults({ ...env, INTERNAL_SERVICE_TOKEN: 't' }), []);
  t.strictSame(configFaults({ ...env, SERVICES: 'attempt' }), []);
  const own = { NOTIFICATION_TOKEN_EXAM_SERVICE: 'e', NOTIFICATION_TOKEN_BFF_SERVICE: '', INTERNAL_SERVICE_TOKEN: 'i' };
  t.match(readConfig({ MONGODB_URL, ...own }).notification.senderTokens, {
    'exam-service': 'e',
    'admin-service': 'i',
    'bff-service': undefined,
  });
});

t.test('the webhook channel needs an address that is safe to call, and a secret', async (t) => {
  const env = { MONGODB_URL, NOTIFICATION_CHANNELS: 'log, webhook', NOTIFICATION_WEBHOOK_SECRET: 's' };
  const at = (NOTIFICATION_WEBHOOK_URL: string) => ({ ...env, NOTIFICATION_WEBHOOK_URL });
  for (const url of [
    'https://hooks.example/in?a=1',
    'http://127.0.0.1:8080/',
    'http://localhost/x',
    'http://[::1]:1/',
  ]) {
    t.strictSame(readConfig(at(url)).notification.webhook, { url, secret: 's', timeoutMs: 10_000 });
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
