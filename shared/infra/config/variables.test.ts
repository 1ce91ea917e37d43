import t from 'tap';
import { configFaults, MONGODB_URL, PRODUCTION, strongSecret } from '#testing/config-faults.ts';
import { readConfig, secretsOf } from './config.ts';
import { DEVELOPMENT_JWT_SECRET } from './variable.ts';

t.test('a production front door of the auth service requires its own secret, other processes need none', async (t) => {
  const { AUTH_JWT_SECRET: _secret, ...env } = PRODUCTION;
  const secretFaults = (more: NodeJS.ProcessEnv) => configFaults({ ...env, ...more });
  t.match(secretFaults({}), [/^AUTH_JWT_SECRET: not set/]);
  t.match(secretFaults({ AUTH_JWT_SECRET: '' }), [/^AUTH_JWT_SECRET: empty/]);
  t.match(secretFaults({ AUTH_JWT_SECRET: strongSecret('jwt').slice(0, 31) }), [/wanted at least 32 bytes/]);
  t.match(secretFaults({ AUTH_JWT_SECRET: DEVELOPMENT_JWT_SECRET }), [/not the development default/]);
  const good = { AUTH_JWT_SECRET: strongSecret('jwt').slice(0, 32) };
  t.strictSame(secretFaults(good), []);
  t.match(secretFaults({ ...good, AUTH_JWT_PREVIOUS_SECRETS: DEVELOPMENT_JWT_SECRET }), [/development default, each/]);
  t.match(secretFaults({ ...good, AUTH_JWT_PREVIOUS_SECRETS: 'short' }), [/at least 32 bytes, each/]);
  t.strictSame(secretFaults({ SERVICES: 'attempt' }), []);
  t.strictSame(secretFaults({ SERVICES: 'attempt', AUTH_JWT_SECRET: 'short' }), []);
  t.match(configFaults({ MONGODB_URL, AUTH_JWT_SECRET: '' }), [/^AUTH_JWT_SECRET: empty/], 'also in development');
});

t.test('earlier secrets and trusted proxies are lists, and the log removes every secret', async (t) => {
  const config = readConfig(
    {
      MONGODB_URL,
      AUTH_JWT_SECRET: 'now',
      AUTH_JWT_PREVIOUS_SECRETS: ' before , , long ago',
      TRUSTED_PROXIES: '10.0.0.1, 192.168.0.0/16,::1,fd00::/8',
      AUTH_SELF_REGISTER_ROLES: 'STUDENT',
    },
    'cluster',
  );
  t.strictSame(config.auth.jwt.previousSecrets, ['before', 'long ago']);
  t.strictSame(config.auth.trustedProxies, ['10.0.0.1', '192.168.0.0/16', '::1', 'fd00::/8']);
  t.strictSame(config.auth.selfRegisterRoles, new Set(['STUDENT'] as const));
  t.strictSame(secretsOf(config), ['now', 'before', 'long ago']);
  t.strictSame(readConfig({ MONGODB_URL, TRUSTED_PROXIES: '' }, 'cluster').auth.trustedProxies, []);
  for (const wrong of ['proxy', '10.0.0.0/', '10.0.0.0/8/8', '::1/129', 'fe80::1%eth0', '1.2.3', '10.0.0.0/-1']) {
    t.match(configFaults({ MONGODB_URL, TRUSTED_PROXIES: `::1,${wrong}` }), [/^TRUSTED_PROXIES/], wrong);
  }
});

t.test('students and parents may register by default, and an empty list of roles closes registration', async (t) => {
  const rolesOf = (env: NodeJS.ProcessEnv) => [
    ...readConfig({ MONGODB_URL, ...env }, 'cluster').auth.selfRegisterRoles,
  ];
  t.strictSame(rolesOf({}), ['STUDENT', 'PARENT']);
  t.strictSame(rolesOf({ AUTH_SELF_REGISTER_ROLES: 'PARENT, TEACHER' }), ['TEACHER', 'PARENT']);
  t.strictSame(rolesOf({ AUTH_SELF_REGISTER_ROLES: '' }), []);
  for (const wrong of [' ', ',', 'STUDENT,', 'ADMIN', 'student']) {
    t.match(configFaults({ MONGODB_URL, AUTH_SELF_REGISTER_ROLES: wrong }), [/^AUTH_SELF_REGISTER_ROLES: /], wrong);
  }
});

t.test('the maximum age of a session is a whole number of days, at least 1', async (t) => {
  const maxMs = (days: string) => readConfig({ MONGODB_URL, AUTH_SESSION_MAX_DAYS: days }, 'cluster').auth.sessionMaxMs;
  t.equal(maxMs('1'), 86_400_000);
  for (const wrong of ['', '0', '0.5', '-1', '3651']) {
    t.match(configFaults({ MONGODB_URL, AUTH_SESSION_MAX_DAYS: wrong }), [/^AUTH_SESSION_MAX_DAYS: /], wrong);
  }
});

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

t.test('the name of a model is one that a reply can have', async (t) => {
  for (const name of ['AI_CLASSIFIER_MODEL', 'OPENAI_MODEL']) {
    const named = (model: string) => readConfig({ MONGODB_URL: 'mongodb://127.0.0.1/', [name]: model }, 'classifier');
    t.throws(() => named('m'.repeat(201)), { message: RegExp(`${name}.*at most 200 characters`) });
    t.doesNotThrow(() => named('m'.repeat(200)));
  }
});

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
  t.match(readConfig({ MONGODB_URL, ...own }, 'cluster').notification.senderTokens, {
    'exam-service': ['e'],
    'admin-service': ['i'],
    'bff-service': undefined,
  });
});

const WEBHOOK_SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const EARLIER_SECRET = 'whsec_ZWFybGllciBzZWNyZXQgb2YgdGhlIHRlc3QgLi4=';

t.test('the webhook channel requires an https or loopback URL and a secret', async (t) => {
  const env = { MONGODB_URL, NOTIFICATION_CHANNELS: 'log, webhook', NOTIFICATION_WEBHOOK_SECRET: WEBHOOK_SECRET };
  const at = (NOTIFICATION_WEBHOOK_URL: string) => ({ ...env, NOTIFICATION_WEBHOOK_URL });
  for (const url of [
    'https://hooks.example/in?a=1',
    'http://127.0.0.1:8080/',
    'http://localhost/x',
    'http://[::1]:1/',
  ]) {
    t.strictSame(readConfig(at(url), 'cluster').notification.webhook, {
      url,
      secrets: [WEBHOOK_SECRET],
      timeoutMs: 10_000,
    });
  }
  for (const url of ['http://hooks.example/', 'ftp://127.0.0.1/', 'https://u:p@hooks.example/', 'https://h/#f', 'x']) {
    t.match(configFaults(at(url))[0], /^NOTIFICATION_WEBHOOK_URL: set to a value not shown here/, url);
  }
  t.match(configFaults({ MONGODB_URL, NOTIFICATION_CHANNELS: 'webhook' }), [
    /WEBHOOK_URL: not set/,
    /WEBHOOK_SECRET: not set/,
  ]);
  t.match(configFaults({ MONGODB_URL, NOTIFICATION_CHANNELS: 'mail' }), [/^NOTIFICATION_CHANNELS: .*log, webhook/]);
  t.equal(readConfig({ MONGODB_URL, NOTIFICATION_CHANNELS: '' }, 'cluster').notification.channels.size, 0);
});

t.test('a malformed webhook secret is a fault at start that never quotes the secret', async (t) => {
  const env = {
    MONGODB_URL,
    NOTIFICATION_CHANNELS: 'webhook',
    NOTIFICATION_WEBHOOK_URL: 'https://hooks.example/in',
    NOTIFICATION_WEBHOOK_SECRET: WEBHOOK_SECRET,
  };
  const wanted = 'set to a value not shown here, wanted whsec_ and the base64 of';
  for (const name of ['NOTIFICATION_WEBHOOK_SECRET', 'NOTIFICATION_WEBHOOK_SECRET_PREVIOUS']) {
    for (const secret of [
      'hunter2',
      WEBHOOK_SECRET.slice('whsec_'.length),
      'whsec_',
      'whsec_not base64',
      'whsec_hunter2',
    ]) {
      const faults = configFaults({ ...env, [name]: secret });
      t.equal(faults.length, 1, secret);
      t.match(faults[0]?.slice(0, name.length + wanted.length + 2), `${name}: ${wanted}`);
      t.notMatch(faults[0], /hunter2|not base64|MfKQ9r8/);
      t.equal(configFaults({ MONGODB_URL, [name]: secret }).length, 1, 'where the channel is off too');
    }
  }
  const webhookOf = (more: NodeJS.ProcessEnv) =>
    readConfig({ ...env, ...more }, 'cluster').notification.webhook?.secrets;
  t.strictSame(webhookOf({}), [WEBHOOK_SECRET]);
  t.strictSame(
    webhookOf({ NOTIFICATION_WEBHOOK_SECRET_PREVIOUS: EARLIER_SECRET }),
    [WEBHOOK_SECRET, EARLIER_SECRET],
    'the new one first',
  );
  t.strictSame(webhookOf({ NOTIFICATION_WEBHOOK_SECRET_PREVIOUS: '' }), [WEBHOOK_SECRET]);
  t.match(configFaults({ ...env, NOTIFICATION_WEBHOOK_SECRET: '' }), [/^NOTIFICATION_WEBHOOK_SECRET: not set, wanted/]);
});

t.test('production requires a webhook key of at least 24 bytes that are no pattern', async (t) => {
  const env = { ...PRODUCTION, SERVICES: 'attempt' };
  const of = (key: Buffer) => ({ ...env, NOTIFICATION_WEBHOOK_SECRET: `whsec_${key.toString('base64')}` });
  const key = Buffer.from(strongSecret('webhook')).subarray(0, 24);
  t.match(configFaults(of(key.subarray(1))), [/at least 24 random bytes/]);
  t.match(configFaults(of(Buffer.alloc(24, 1))), [/at least 24 random bytes/]);
  t.strictSame(configFaults(of(key)), []);
});

t.test('every webhook secret is among the secrets that the log redacts', async (t) => {
  const config = readConfig(
    {
      MONGODB_URL,
      NOTIFICATION_CHANNELS: 'webhook',
      NOTIFICATION_WEBHOOK_URL: 'https://hooks.example/in',
      NOTIFICATION_WEBHOOK_SECRET: WEBHOOK_SECRET,
      NOTIFICATION_WEBHOOK_SECRET_PREVIOUS: EARLIER_SECRET,
    },
    'cluster',
  );
  t.ok([WEBHOOK_SECRET, EARLIER_SECRET].every((secret) => secretsOf(config).includes(secret)));
});

const EMAIL = {
  MONGODB_URL,
  NOTIFICATION_CHANNELS: 'email',
  PROFILE_SERVICE_URL: 'https://profile.example',
  NOTIFICATION_EMAIL_HOST: 'mail.school.example',
  NOTIFICATION_EMAIL_FROM: 'no-reply@school.example',
};

t.test('the email channel requires a mail server, a sender and the profile service', async (t) => {
  t.strictSame(readConfig(EMAIL, 'cluster').notification.email, {
    host: 'mail.school.example',
    port: 587,
    tls: 'starttls',
    login: null,
    from: 'no-reply@school.example',
    senderName: 'examhall',
    timeoutMs: 20_000,
  });
  t.equal(readConfig({ ...EMAIL, NOTIFICATION_CHANNELS: '' }, 'cluster').notification.email, null);
  t.match(configFaults({ MONGODB_URL, NOTIFICATION_CHANNELS: 'email' }), [
    /^NOTIFICATION_EMAIL_HOST: not set, wanted by the email channel/,
    /^NOTIFICATION_EMAIL_FROM: not set, wanted by the email channel/,
    /^PROFILE_SERVICE_URL: not set, wanted by the email channel: the profile service knows the addresses/,
  ]);
});

t.test('the email channel sends no plain text over a network and begins no half login', async (t) => {
  const faults = (more: NodeJS.ProcessEnv) => configFaults({ ...EMAIL, ...more });
  t.match(faults({ NOTIFICATION_EMAIL_TLS: 'none' }), [/^NOTIFICATION_EMAIL_TLS: .*wanted starttls or implicit/]);
  for (const NOTIFICATION_EMAIL_HOST of ['localhost', '127.0.0.1', '::1'])
    t.strictSame(faults({ NOTIFICATION_EMAIL_TLS: 'none', NOTIFICATION_EMAIL_HOST }), [], NOTIFICATION_EMAIL_HOST);
  t.match(faults({ NOTIFICATION_EMAIL_TLS: 'ssl' }), [/^NOTIFICATION_EMAIL_TLS: set to "ssl", wanted one of starttls/]);
  t.match(faults({ NOTIFICATION_EMAIL_USER: 'u' }), [/^NOTIFICATION_EMAIL_USER, NOTIFICATION_EMAIL_PASSWORD: one/]);
  t.match(faults({ NOTIFICATION_EMAIL_PASSWORD: 'hunter2' }), [/: one is not set, wanted both or neither/]);
  for (const NOTIFICATION_EMAIL_HOST of ['https://mail.example', 'mail.example:587', 'a b', '-x', 'm@h'])
    t.match(faults({ NOTIFICATION_EMAIL_HOST }), [/^NOTIFICATION_EMAIL_HOST: wanted/], NOTIFICATION_EMAIL_HOST);
  for (const from of ['x', 'An <a@b>', 'a@b, c@d', 'a@b\nBcc: c@d'])
    t.match(faults({ NOTIFICATION_EMAIL_FROM: from }), [/^NOTIFICATION_EMAIL_FROM: wanted an address/], from);
  t.match(faults({ NOTIFICATION_EMAIL_SENDER_NAME: 'a\nb' }), [/^NOTIFICATION_EMAIL_SENDER_NAME: wanted one line/]);
});

t.test('the password of the mail server may be in a file, and is among the secrets that the log redacts', async (t) => {
  const login = { NOTIFICATION_EMAIL_USER: 'u', NOTIFICATION_EMAIL_PASSWORD: 'hunter2' };
  const config = readConfig({ ...EMAIL, ...login }, 'cluster');
  t.strictSame(config.notification.email?.login, { user: 'u', password: 'hunter2' });
  t.ok(secretsOf(config).includes('hunter2'));
  const file = `${t.testdir({ password: 'hunter3\n' })}/password`;
  const filed = readConfig(
    { ...EMAIL, NOTIFICATION_EMAIL_USER: 'u', NOTIFICATION_EMAIL_PASSWORD_FILE: file },
    'cluster',
  );
  t.equal(filed.notification.email?.login?.password, 'hunter3');
});

t.test('the webpush channel requires a private key of P-256 and a subject', async (t) => {
  const key = 'yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw';
  const env = {
    MONGODB_URL,
    NOTIFICATION_CHANNELS: 'webpush',
    NOTIFICATION_WEBPUSH_PRIVATE_KEY: key,
    NOTIFICATION_WEBPUSH_SUBJECT: 'mailto:it@school.example',
  };
  const config = readConfig(env, 'cluster');
  t.match(config.notification.webpush, { subject: 'mailto:it@school.example', ttlSeconds: 86_400, timeoutMs: 10_000 });
  t.match(config.notification.webpush?.keys.publicKey, /^B[\w-]{86}$/);
  t.ok(secretsOf(config).includes(key));
  t.not(
    readConfig({ ...env, NOTIFICATION_CHANNELS: '' }, 'cluster').notification.webpush,
    null,
    'pages may subscribe before',
  );
  t.match(configFaults({ MONGODB_URL, NOTIFICATION_CHANNELS: 'webpush' }), [/_SUBJECT: not set/, /_KEY: not set/]);
  t.match(configFaults({ ...env, NOTIFICATION_WEBPUSH_PRIVATE_KEY: 'hunter2' }), [
    /^NOTIFICATION_WEBPUSH_PRIVATE_KEY: set to a value not shown here, wanted 32 bytes of a P-256 key/,
  ]);
  for (const subject of ['it@school.example', 'mailto:it', 'http://school.example', 'x'])
    t.match(configFaults({ ...env, NOTIFICATION_WEBPUSH_SUBJECT: subject }), [/_SUBJECT: wanted mailto:/], subject);
});

t.test('push messages go to the listed hosts of push services alone', async (t) => {
  const hostsOf = (NOTIFICATION_WEBPUSH_HOSTS: string) =>
    readConfig({ MONGODB_URL, NOTIFICATION_WEBPUSH_HOSTS }, 'web').notification.pushHosts;
  t.match(readConfig({ MONGODB_URL }, 'web').notification.pushHosts, [
    'fcm.googleapis.com',
    /^\*\.push\.services/,
    /apple/,
    /windows/,
  ]);
  t.strictSame(hostsOf('push.school.example, *.push.vendor.example'), ['push.school.example', '*.push.vendor.example']);
  for (const hosts of [
    '',
    '*',
    '*.com',
    'localhost',
    '10.0.0.1',
    'x.local',
    '*.default.svc',
    'https://push.example',
    'push.example:8443',
    'Push.example',
  ])
    t.match(configFaults({ MONGODB_URL, NOTIFICATION_WEBPUSH_HOSTS: hosts }), [/^NOTIFICATION_WEBPUSH_HOSTS: /], hosts);
});

t.test('the links of e-mails require an address and a secret', async (t) => {
  const links = {
    MONGODB_URL,
    NOTIFICATION_UNSUBSCRIBE_URL: 'https://api.school.example/v1/notifications/unsubscribe',
    NOTIFICATION_UNSUBSCRIBE_SECRET: 'hunter2 of the links',
  };
  const config = readConfig(links, 'cluster');
  t.match(config.notification.unsubscribe, { url: links.NOTIFICATION_UNSUBSCRIBE_URL });
  t.ok(secretsOf(config).includes('hunter2 of the links'));
  t.match(configFaults({ ...links, NOTIFICATION_UNSUBSCRIBE_SECRET: '' }), [/^NOTIFICATION_UNSUBSCRIBE_SECRET: /]);
  t.equal(readConfig({ MONGODB_URL }, 'cluster').notification.unsubscribe, null);
  t.match(configFaults({ ...PRODUCTION, ...links }), [/^NOTIFICATION_UNSUBSCRIBE_SECRET: .*at least 32 bytes/]);
});
