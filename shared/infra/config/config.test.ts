import t from 'tap';
import { ConfigError, readConfig } from './config.ts';
import { configurationMarkdown, envExample } from './documentation.ts';
import { secretsOf } from './secrets.ts';
import { DEVELOPMENT_JWT_SECRET } from './variable.ts';
import { VARIABLES } from './variables.ts';

const MONGODB_URL = 'mongodb://127.0.0.1:27017/?replicaSet=rs0';
const REDIS_URL = 'redis://127.0.0.1:6379';

function faultsOf(env: NodeJS.ProcessEnv): readonly string[] {
  try {
    readConfig(env);
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return error.faults;
    throw error;
  }
}

t.test('only MONGODB_URL is needed in development, and every default is as documented', async (t) => {
  const config = readConfig({ MONGODB_URL });
  t.strictSame(config, {
    environment: 'development',
    production: false,
    warnings: [],
    doorWarnings: [],
    services: new Set(['attempt', 'auth', 'classifier', 'notification']),
    host: '127.0.0.1',
    port: 3000,
    metricsPort: null,
    logLevel: 'info',
    shutdown: { timeoutMs: 20_000, drainGraceMs: 1_000 },
    mongodb: { url: MONGODB_URL, database: 'examhall' },
    redis: { url: REDIS_URL },
    gatewayToken: undefined,
    internalServiceToken: undefined,
    opsToken: undefined,
    neighbours: {
      notification: null,
      profile: null,
      analytics: null,
      audit: null,
      questionBank: null,
      usage: null,
      wallet: null,
    },
    outboundTimeoutMs: 5_000,
    attempt: {
      receiverToken: undefined,
      gradingWaitMs: 10_000,
      overdueGraceSeconds: 300,
      outbox: { maxAttempts: 30, retryBaseMs: 5_000 },
      startBudgetMs: 5_000,
    },
    auth: {
      jwt: { secret: DEVELOPMENT_JWT_SECRET, previousSecrets: [], issuer: 'examhall' },
      bcrypt: { passwordCost: 12, tokenCost: 6 },
      passwordMinLength: 8,
      selfRegisterRoles: new Set(['STUDENT', 'TEACHER', 'PARENT']),
      defaultOrganization: { id: 'local', name: 'Local' },
      trustedProxies: [],
    },
    notification: {
      senderTokens: {
        'admin-service': undefined,
        'attempt-service': undefined,
        'bff-service': undefined,
        'classroom-service': undefined,
        'exam-service': undefined,
      },
      channels: new Set(),
      webhook: null,
      delivery: { maxAttempts: 6, retryBaseMs: 2_000, leaseMs: 30_000 },
    },
    classifier: {
      provider: 'mock',
      model: null,
      baseUrl: null,
      allowedOrigins: [],
      keys: {},
      timeoutMs: 60_000,
      maxRetries: 2,
      circuit: { failures: 5, cooldownMs: 30_000 },
      streaming: false,
      batchConcurrency: 1,
      settles: false,
      settlementWorkerEnabled: false,
      worker: {
        enabled: false,
        concurrency: 2,
        pollIntervalMs: 1_000,
        leaseMs: 60_000,
        maxAttempts: 5,
        retryBaseDelayMs: 3_000,
      },
    },
    worker: { pollIntervalMs: 1_000, maxAttempts: 10, leaseMs: 10_000, concurrency: 8, retryBaseDelayMs: 1_000 },
    upkeep: { intervalMs: 10_000 },
    limits: { bodyBudgetBytes: 268_435_456, headTimeoutMs: 10_000, bodyTimeoutMs: 20_000 },
  });
});

t.test('every fault stands in one message, which shows what was given but no secret', async (t) => {
  const env = {
    NODE_ENV: 'prod',
    MONGODB_URL: 'mongodb://root:hunter2@db/?w=1',
    REDIS_URL: 'http://:hunter3@redis',
    PORT: '70000',
    METRICS_PORT: '',
    SERVICES: 'attempt,auth,grading',
    LOG_LEVEL: 'loud',
    OPS_TOKEN: 'hunter4\n',
    PROFILE_SERVICE_URL: 'https://me:hunter5@profile',
    WORKER_CONCURRENCY: '1.5',
    AUTH_JWT_SECRET: 'hunter6,hunter7',
    AUTH_JWT_PREVIOUS_SECRETS: 'fine, hunter8\u00e9',
    AUTH_BCRYPT_COST: '31',
    AUTH_SELF_REGISTER_ROLES: 'STUDENT,ADMIN',
    AUTH_DEFAULT_ORGANIZATION_ID: 'a b',
    TRUSTED_PROXIES: '10.0.0.0/8,10.0.0.0/33',
  };
  const faults = faultsOf(env);
  t.same(
    faults.map((fault) => fault.split(':')[0]).sort(),
    Object.keys(env).sort(),
    'one fault for each wrong variable and none for the others',
  );
  const message = faults.join('\n');
  t.notMatch(message, 'hunter');
  t.match(message, 'PORT: set to "70000", wanted an integer from 0 to 65535');
  t.match(message, 'METRICS_PORT: set to nothing');
  t.match(message, 'some of attempt, auth, classifier, notification');
  t.match(message, 'w is not majority');
  t.throws(() => readConfig(env), { name: 'ConfigError', message: /16 fault/ });
});

t.test('a connection string that reads from a secondary is refused', async (t) => {
  t.strictSame(faultsOf({ MONGODB_URL: `${MONGODB_URL}&readPreference=secondaryPreferred` }), [
    'MONGODB_URL: set to a value not shown here, wanted w=majority, journaled writes and majority reads of the primary (readPreference is not primary)',
  ]);
});

t.test('a missing MONGODB_URL is told as not set', async (t) => {
  t.strictSame(faultsOf({}), ['MONGODB_URL: not set, wanted a mongodb:// or mongodb+srv:// URL']);
});

t.test('set to the empty string counts as set', async (t) => {
  const config = readConfig({
    MONGODB_URL,
    GATEWAY_TOKEN: '',
    INTERNAL_SERVICE_TOKEN: 'shared',
    ATTEMPT_INTERNAL_SERVICE_TOKEN: '',
    NOTIFICATION_SERVICE_URL: 'http://notify/',
    NOTIFICATION_TOKEN_ATTEMPT_SERVICE: '',
    PROFILE_SERVICE_URL: '',
    PROFILE_SERVICE_BASE_URL: 'http://profile',
  });
  t.equal(config.gatewayToken, '', 'an empty gateway token closes the door, it does not take it away');
  t.equal(config.attempt.receiverToken, undefined, 'an empty receiver token is none, not the shared one');
  t.strictSame(config.neighbours.notification, { url: 'http://notify', token: undefined });
  t.equal(config.neighbours.profile, null, 'an empty URL is a service that is not configured');
  for (const name of [
    'NODE_ENV',
    'SERVICES',
    'HOST',
    'PORT',
    'MONGODB_URL',
    'MONGODB_DATABASE',
    'REDIS_URL',
    'LOG_LEVEL',
  ]) {
    t.equal(faultsOf({ MONGODB_URL, [name]: '' }).length, 1, `${name} may not be empty`);
  }
});

t.test('tokens and neighbours fall back in their order', async (t) => {
  const base = {
    MONGODB_URL,
    NOTIFICATION_SERVICE_BASE_URL: 'https://notify.example/base//',
    INTERNAL_SERVICE_TOKEN: 'c',
  };
  const third = readConfig(base);
  t.strictSame(third.neighbours.notification, { url: 'https://notify.example/base', token: 'c' });
  t.equal(third.attempt.receiverToken, 'c');
  const second = readConfig({ ...base, NOTIFICATION_INTERNAL_SERVICE_TOKEN: 'b' });
  t.equal(second.neighbours.notification?.token, 'b');
  const first = readConfig({
    ...base,
    NOTIFICATION_INTERNAL_SERVICE_TOKEN: 'b',
    NOTIFICATION_TOKEN_ATTEMPT_SERVICE: 'a',
    NOTIFICATION_SERVICE_URL: 'http://first',
    ATTEMPT_INTERNAL_SERVICE_TOKEN: 'own',
  });
  t.strictSame(first.neighbours.notification, { url: 'http://first', token: 'a' });
  t.equal(first.attempt.receiverToken, 'own');
  t.equal(first.internalServiceToken, 'c');
});

t.test('production refuses what everybody knows and warns about what is missing', async (t) => {
  const env = {
    NODE_ENV: 'production',
    MONGODB_URL,
    REDIS_URL,
    AUTH_JWT_SECRET: 's'.repeat(32),
    NOTIFICATION_INTERNAL_SERVICE_TOKEN: 't',
  };
  t.same(
    faultsOf({
      NODE_ENV: 'production',
      MONGODB_URL,
      INTERNAL_SERVICE_TOKEN: 'dev-internal-token',
      OPS_TOKEN: 'dev-ops-token',
      GATEWAY_TOKEN: 'dev-internal-token',
    }).map((fault) => fault.split(':')[0]),
    ['INTERNAL_SERVICE_TOKEN', 'REDIS_URL', 'GATEWAY_TOKEN', 'OPS_TOKEN', 'AUTH_JWT_SECRET'],
  );
  t.same(faultsOf({ MONGODB_URL, OPS_TOKEN: 'dev-ops-token' }), [], 'development takes them');
  const bare = readConfig(env);
  t.equal(bare.host, '0.0.0.0');
  t.strictSame([bare.warnings.length, bare.doorWarnings.length], [2, 2]);
  const full = { GATEWAY_TOKEN: 'g', OPS_TOKEN: 'o', INTERNAL_SERVICE_TOKEN: 'i' };
  const { warnings, doorWarnings } = readConfig({ ...env, ...full });
  t.strictSame([...warnings, ...doorWarnings], []);
});

t.test('a production front door of the auth service signs with a secret of its own, others need none', async (t) => {
  const env = { NODE_ENV: 'production', MONGODB_URL, REDIS_URL, NOTIFICATION_INTERNAL_SERVICE_TOKEN: 't' };
  const secretFaults = (more: NodeJS.ProcessEnv) => faultsOf({ ...env, ...more });
  t.match(secretFaults({}), [/^AUTH_JWT_SECRET: not set/]);
  t.match(secretFaults({ AUTH_JWT_SECRET: '' }), [/set to nothing/]);
  t.match(secretFaults({ AUTH_JWT_SECRET: 's'.repeat(31) }), [/wanted at least 32 bytes/]);
  t.match(secretFaults({ AUTH_JWT_SECRET: DEVELOPMENT_JWT_SECRET }), [/not the development default/]);
  const good = { AUTH_JWT_SECRET: 's'.repeat(32) };
  t.strictSame(secretFaults(good), []);
  t.match(secretFaults({ ...good, AUTH_JWT_PREVIOUS_SECRETS: DEVELOPMENT_JWT_SECRET }), [/development default, each/]);
  t.match(secretFaults({ ...good, AUTH_JWT_PREVIOUS_SECRETS: 'short' }), [/at least 32 bytes, each/]);
  t.strictSame(secretFaults({ SERVICES: 'attempt' }), []);
  t.strictSame(secretFaults({ SERVICES: 'attempt', AUTH_JWT_SECRET: 'short' }), []);
  t.match(faultsOf({ MONGODB_URL, AUTH_JWT_SECRET: '' }), [/^AUTH_JWT_SECRET: set to nothing/], 'nowhere empty');
});

t.test('a production front door of the notification service needs a token for every sender', async (t) => {
  const env = { NODE_ENV: 'production', MONGODB_URL, REDIS_URL, SERVICES: 'notification' };
  t.match(faultsOf(env), [/^NOTIFICATION_INTERNAL_SERVICE_TOKEN: no token for admin-service, attempt-service, bff-/]);
  t.match(faultsOf({ ...env, NOTIFICATION_TOKEN_EXAM_SERVICE: 'e' }), [/for admin-service.*classroom-service, wanted/]);
  t.strictSame(faultsOf({ ...env, NOTIFICATION_INTERNAL_SERVICE_TOKEN: 't' }), []);
  t.strictSame(faultsOf({ ...env, INTERNAL_SERVICE_TOKEN: 't' }), []);
  t.strictSame(faultsOf({ ...env, SERVICES: 'attempt' }), []);
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
    t.match(faultsOf(at(url))[0], /^NOTIFICATION_WEBHOOK_URL: set to a value not shown here/, url);
  }
  t.match(faultsOf({ MONGODB_URL, NOTIFICATION_CHANNELS: 'webhook' }), [
    /WEBHOOK_URL: not set/,
    /WEBHOOK_SECRET: not set/,
  ]);
  t.match(faultsOf({ MONGODB_URL, NOTIFICATION_CHANNELS: 'mail' }), [/^NOTIFICATION_CHANNELS: .*log, webhook/]);
  t.equal(readConfig({ MONGODB_URL, NOTIFICATION_CHANNELS: '' }).notification.channels.size, 0);
});

t.test('keys of models are secrets, and may go to origins only', async (t) => {
  const keys = { OPENAI_API_KEY: 'sk-1', AI_CLASSIFIER_API_KEY: 'sk-2', GEMINI_API_KEY: '' };
  const config = readConfig({
    MONGODB_URL,
    ...keys,
    AI_CLASSIFIER_ALLOWED_BASE_URLS: 'https://a.example:8443, http://127.0.0.1:1',
  });
  t.strictSame(config.classifier.keys, { OPENAI_API_KEY: 'sk-1', AI_CLASSIFIER_API_KEY: 'sk-2', GEMINI_API_KEY: '' });
  t.notOk(secretsOf(config).includes(''));
  t.equal(config.classifier.baseUrl, null);
  t.equal(readConfig({ MONGODB_URL, AI_CLASSIFIER_BASE_URL: '' }).classifier.baseUrl, '', 'set to nothing is set');
  t.strictSame(config.classifier.allowedOrigins, ['https://a.example:8443', 'http://127.0.0.1:1']);
  t.ok(['sk-1', 'sk-2'].every((key) => secretsOf(config).includes(key)));
  for (const origin of ['https://a.example/', 'https://a.example/v1', 'a.example', 'https://u@a.example']) {
    t.match(faultsOf({ MONGODB_URL, AI_CLASSIFIER_ALLOWED_BASE_URLS: origin }), [/^AI_CLASSIFIER_ALLOWED_BASE_URLS/]);
  }
  t.equal(
    readConfig({ MONGODB_URL, AI_CLASSIFIER_TIMEOUT_MS: '5', AI_PROVIDER_TIMEOUT_MS: '7' }).classifier.timeoutMs,
    5,
  );
  t.equal(readConfig({ MONGODB_URL, AI_PROVIDER_TIMEOUT_MS: '7' }).classifier.timeoutMs, 7);
});

t.test('earlier secrets and trusted proxies are lists; every secret is one for the log to cut out', async (t) => {
  const config = readConfig({
    MONGODB_URL,
    AUTH_JWT_SECRET: 'now',
    AUTH_JWT_PREVIOUS_SECRETS: ' before , , long ago',
    TRUSTED_PROXIES: '10.0.0.1, 192.168.0.0/16,::1,fd00::/8',
    AUTH_SELF_REGISTER_ROLES: 'STUDENT',
  });
  t.strictSame(config.auth.jwt.previousSecrets, ['before', 'long ago']);
  t.strictSame(config.auth.trustedProxies, ['10.0.0.1', '192.168.0.0/16', '::1', 'fd00::/8']);
  t.strictSame(config.auth.selfRegisterRoles, new Set(['STUDENT'] as const));
  t.strictSame(secretsOf(config), ['now', 'before', 'long ago']);
  t.strictSame(readConfig({ MONGODB_URL, TRUSTED_PROXIES: '' }).auth.trustedProxies, []);
  for (const wrong of ['proxy', '10.0.0.0/', '10.0.0.0/8/8', '::1/129', 'fe80::1%eth0', '1.2.3', '10.0.0.0/-1']) {
    t.match(faultsOf({ MONGODB_URL, TRUSTED_PROXIES: `::1,${wrong}` }), [/^TRUSTED_PROXIES/], wrong);
  }
});

t.test('the known secret on an address that others reach is warned about', async (t) => {
  t.match(readConfig({ MONGODB_URL, HOST: '0.0.0.0' }).doorWarnings, [/anybody can sign tokens/]);
  t.strictSame(readConfig({ MONGODB_URL, HOST: '0.0.0.0', SERVICES: 'attempt' }).doorWarnings, []);
  t.strictSame(readConfig({ MONGODB_URL, HOST: '0.0.0.0', AUTH_JWT_SECRET: 'own' }).doorWarnings, []);
});

t.test('the database is the named one, else that of the URL, else examhall', async (t) => {
  const database = (env: NodeJS.ProcessEnv) => readConfig(env).mongodb.database;
  t.equal(database({ MONGODB_URL: 'mongodb://a,b:27018/school?replicaSet=rs0' }), 'school');
  t.equal(database({ MONGODB_URL: 'mongodb+srv://u:p@cluster/?w=majority' }), 'examhall');
  t.equal(database({ MONGODB_URL: 'mongodb://a', MONGODB_DATABASE: 'named' }), 'named');
});

t.test('the generated papers name every variable', async (t) => {
  for (const name of Object.keys(VARIABLES)) {
    t.match(configurationMarkdown(), `| \`${name}\` |`);
    t.match(envExample(), `${name}=`);
  }
});
