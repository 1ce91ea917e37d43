import t from 'tap';
import { PLACED_PROVIDERS } from '#shared/classifier/provider/names.ts';
import { configFaults, MONGODB_URL, REDIS_URL } from '#testing/config-faults.ts';
import { readConfig } from './config.ts';
import { DEVELOPMENT_JWT_SECRET } from './variable.ts';

t.test('only MONGODB_URL is required in development, and every default is as documented', async (t) => {
  const config = readConfig({ MONGODB_URL }, 'cluster');
  t.strictSame(config, {
    environment: 'development',
    production: false,
    loopbackOnly: true,
    warnings: [],
    services: new Set(['attempt', 'auth', 'classifier', 'notification']),
    host: '127.0.0.1',
    port: 3000,
    metricsPort: null,
    logLevel: 'info',
    apiDocs: true,
    shutdown: { timeoutMs: 20_000, drainGraceMs: 1_000 },
    mongodb: { url: MONGODB_URL, database: 'examhall' },
    redis: { url: REDIS_URL },
    gatewayTrust: 'token',
    isOpen: false,
    gatewayToken: undefined,
    internalServiceToken: undefined,
    opsToken: undefined,
    opsReadToken: undefined,
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
      handoffSenders: ['ai-classifier-service', 'api-gateway'],
      overdueSweepEnabled: true,
      overdueGraceSeconds: 300,
      outbox: { maxAttempts: 30, retryBaseMs: 5_000 },
      startBudgetMs: 5_000,
    },
    auth: {
      jwt: { secret: DEVELOPMENT_JWT_SECRET, previousSecrets: [], issuer: 'examhall' },
      bcrypt: { passwordCost: 12, tokenCost: 6 },
      sessionMaxMs: 90 * 86_400_000,
      passwordMinLength: 8,
      selfRegisterRoles: new Set(['STUDENT', 'PARENT']),
      defaultOrganization: { id: 'local', name: 'Local' },
      trustedProxies: [],
    },
    notification: {
      senderTokens: {
        'admin-service': undefined,
        'attempt-service': undefined,
        'auth-service': undefined,
        'bff-service': undefined,
        'classroom-service': undefined,
        'exam-service': undefined,
      },
      channels: new Set(),
      webhook: null,
      email: null,
      webpush: null,
      pushHosts: ['fcm.googleapis.com', '*.push.services.mozilla.com', '*.push.apple.com', '*.notify.windows.com'],
      unsubscribe: null,
      delivery: { maxAttempts: 6, retryBaseMs: 2_000, leaseMs: 30_000 },
    },
    classifier: {
      provider: 'mock',
      model: null,
      baseUrl: null,
      places: Object.fromEntries(PLACED_PROVIDERS.map((provider) => [provider, { baseUrl: null, model: null }])),
      allowedOrigins: [],
      keys: {},
      timeoutMs: 60_000,
      maxRetries: 2,
      circuit: { failures: 5, cooldownMs: 30_000 },
      streaming: false,
      batchConcurrency: 1,
      openJobLimits: { perActor: 3, perOrganization: 10 },
      settles: false,
      settlementWorkerEnabled: false,
      settlementWaitMs: 5_000,
      worker: {
        enabled: false,
        concurrency: 2,
        pollIntervalMs: 1_000,
        leaseMs: 15_000,
        maxAttempts: 5,
        retryBaseDelayMs: 3_000,
      },
    },
    worker: {
      pollIntervalMs: 1_000,
      maxAttempts: 10,
      leaseMs: 10_000,
      concurrency: 48,
      backgroundWaiting: 1_000,
      retryBaseDelayMs: 1_000,
    },
    upkeep: { intervalMs: 10_000, retention: { attemptsMs: null, notificationsMs: null, jobsMs: null } },
    subscriptions: { allowsPrivate: false },
    securityContacts: ['mailto:root@localhost'],
    limits: { bodyBudgetBytes: 268_435_456, headTimeoutMs: 10_000, bodyTimeoutMs: 20_000, maxConnections: 32_768 },
  });
});

t.test('one message lists every configuration fault, with the given value but without secrets', async (t) => {
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
  const faults = configFaults(env);
  t.same(
    faults.map((fault) => fault.split(':')[0]).sort(),
    Object.keys(env).sort(),
    'one fault for each wrong variable and none for the others',
  );
  const message = faults.join('\n');
  t.notMatch(message, 'hunter');
  t.match(message, 'PORT: set to "70000", wanted an integer from 0 to 65535');
  t.match(message, 'METRICS_PORT: empty');
  t.match(message, 'some of attempt, auth, classifier, notification');
  t.match(message, 'w is not majority');
  t.throws(() => readConfig(env, 'cluster'), { name: 'ConfigError', message: /16 fault/ });
});

t.test('the configuration refuses a connection string that reads from a secondary', async (t) => {
  t.strictSame(configFaults({ MONGODB_URL: `${MONGODB_URL}&readPreference=secondaryPreferred` }), [
    'MONGODB_URL: set to a value not shown here, wanted w=majority, journaled writes and majority reads of the primary (readPreference is not primary)',
  ]);
});

t.test('the configuration refuses connection strings that no client could parse', async (t) => {
  const refused = (env: NodeJS.ProcessEnv) => configFaults({ MONGODB_URL, ...env }).join();
  t.match(
    refused({ MONGODB_URL: 'mongodb://db/?retryWrite=true' }),
    /^MONGODB_URL: .*option retrywrite is not supported/,
  );
  t.match(refused({ MONGODB_URL: 'mongodb://root:hunt@er2@db/' }), /percent-encoded/);
  t.match(refused({ REDIS_URL: 'redis://redis:99999' }), /^REDIS_URL: .*is not a URL/);
  t.match(refused({ REDIS_URL: 'redis://redis/one' }), /^REDIS_URL: .*must be a number/);
  t.match(refused({ REDIS_URL: 'redis://:hunt%er2@redis' }), /^REDIS_URL: .*percent-encoded/);
  for (const url of ['redis://:hunt%er2@redis', 'redis://:hunt/er2@redis', 'redis://:hunt?er2@redis'])
    t.notMatch(refused({ REDIS_URL: url }), /hunt|er2/, url);
});

t.test('the configuration reports a missing MONGODB_URL as not set', async (t) => {
  t.strictSame(configFaults({}), ['MONGODB_URL: not set, wanted a mongodb:// or mongodb+srv:// URL']);
});

t.test('a variable set to the empty string counts as set', async (t) => {
  const config = readConfig(
    {
      MONGODB_URL,
      GATEWAY_TOKEN: '',
      INTERNAL_SERVICE_TOKEN: 'shared',
      ATTEMPT_INTERNAL_SERVICE_TOKEN: '',
      NOTIFICATION_SERVICE_URL: 'http://notify/',
      NOTIFICATION_TOKEN_ATTEMPT_SERVICE: '',
      PROFILE_SERVICE_URL: '',
      PROFILE_SERVICE_BASE_URL: 'http://profile',
    },
    'cluster',
  );
  t.strictSame(config.gatewayToken, [], 'an empty gateway token closes the front door instead of disabling the check');
  t.equal(config.attempt.receiverToken, undefined, 'an empty receiver token does not fall back to the shared one');
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
    t.equal(configFaults({ MONGODB_URL, [name]: '' }).length, 1, `${name} may not be empty`);
  }
});

t.test('the overdue sweep is on or off, and nothing else', async (t) => {
  const sweeps = (value: string) =>
    readConfig({ MONGODB_URL, ATTEMPT_OVERDUE_SWEEP_ENABLED: value }, 'cluster').attempt.overdueSweepEnabled;
  t.equal(sweeps('0'), false);
  t.equal(sweeps('1'), true);
  for (const value of ['', 'false', 'true', ' 0', '2']) {
    t.match(configFaults({ MONGODB_URL, ATTEMPT_OVERDUE_SWEEP_ENABLED: value }).join(), /wanted one of 0, 1$/, value);
  }
});

t.test('the senders of handoffs are a list of services, never an empty one', async (t) => {
  const senders = (value: string) =>
    readConfig({ MONGODB_URL, ATTEMPT_HANDOFF_SENDERS: value }, 'cluster').attempt.handoffSenders;
  t.strictSame(senders('grading-service'), ['grading-service']);
  t.strictSame(senders(' api-gateway, marker.v2 '), ['api-gateway', 'marker.v2']);
  for (const value of ['', ',', 'api-gateway,', 'two words', 'ấ']) {
    t.match(configFaults({ MONGODB_URL, ATTEMPT_HANDOFF_SENDERS: value }).join(), /wanted names of services/, value);
  }
});

t.test('tokens and URLs of neighbours fall back in the documented order', async (t) => {
  const base = {
    MONGODB_URL,
    NOTIFICATION_SERVICE_BASE_URL: 'https://notify.example/base//',
    INTERNAL_SERVICE_TOKEN: 'c',
  };
  const third = readConfig(base, 'cluster');
  t.strictSame(third.neighbours.notification, { url: 'https://notify.example/base', token: 'c' });
  t.strictSame(third.attempt.receiverToken, ['c']);
  const second = readConfig({ ...base, NOTIFICATION_INTERNAL_SERVICE_TOKEN: 'b' }, 'cluster');
  t.equal(second.neighbours.notification?.token, 'b');
  const first = readConfig(
    {
      ...base,
      NOTIFICATION_INTERNAL_SERVICE_TOKEN: 'b',
      NOTIFICATION_TOKEN_ATTEMPT_SERVICE: 'a',
      NOTIFICATION_SERVICE_URL: 'http://first',
      ATTEMPT_INTERNAL_SERVICE_TOKEN: 'own',
    },
    'cluster',
  );
  t.strictSame(first.neighbours.notification, { url: 'http://first', token: 'a' });
  t.strictSame(first.attempt.receiverToken, ['own']);
  t.strictSame(first.internalServiceToken, ['c']);
});

t.test('the database name comes from MONGODB_DATABASE, else from the URL, else it is examhall', async (t) => {
  const database = (env: NodeJS.ProcessEnv) => readConfig(env, 'cluster').mongodb.database;
  t.equal(database({ MONGODB_URL: 'mongodb://a,b:27018/school?replicaSet=rs0' }), 'school');
  t.equal(database({ MONGODB_URL: 'mongodb+srv://u:p@cluster/?w=majority' }), 'examhall');
  t.equal(database({ MONGODB_URL: 'mongodb://a', MONGODB_DATABASE: 'named' }), 'named');
});

t.test('the security contact is a list of addresses, and outside production the mailbox of this machine', async (t) => {
  const given = 'mailto:security@school.example, https://school.example/report';
  t.strictSame(readConfig({ MONGODB_URL, SECURITY_CONTACT: given }, 'web').securityContacts, given.split(', '));
  t.strictSame(readConfig({ MONGODB_URL }, 'web').securityContacts, ['mailto:root@localhost']);
  for (const contact of [
    '',
    'security@school.example',
    'http://school.example',
    'mailto:a@b,,mailto:c@d',
    'mailto:a@b\nX: y',
  ])
    t.match(
      configFaults({ MONGODB_URL, SECURITY_CONTACT: contact }).at(-1),
      /^SECURITY_CONTACT: /,
      encodeURIComponent(contact),
    );
});
