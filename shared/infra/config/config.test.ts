import t from 'tap';
import { ConfigError, readConfig } from './config.ts';
import { configurationMarkdown, envExample } from './documentation.ts';
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
    neighbours: { notification: null, profile: null, analytics: null },
    outboundTimeoutMs: 5_000,
    attempt: {
      receiverToken: undefined,
      gradingWaitMs: 10_000,
      overdueGraceSeconds: 300,
      outbox: { maxAttempts: 30, retryBaseMs: 5_000 },
      startBudgetMs: 5_000,
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
    SERVICES: 'attempt,grading',
    LOG_LEVEL: 'loud',
    OPS_TOKEN: 'hunter4\n',
    PROFILE_SERVICE_URL: 'https://me:hunter5@profile',
    WORKER_CONCURRENCY: '1.5',
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
  t.throws(() => readConfig(env), { name: 'ConfigError', message: /10 fault/ });
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
  const env = { NODE_ENV: 'production', MONGODB_URL, REDIS_URL };
  t.same(
    faultsOf({
      NODE_ENV: 'production',
      MONGODB_URL,
      INTERNAL_SERVICE_TOKEN: 'dev-internal-token',
      OPS_TOKEN: 'dev-ops-token',
      GATEWAY_TOKEN: 'dev-internal-token',
    }).map((fault) => fault.split(':')[0]),
    ['INTERNAL_SERVICE_TOKEN', 'REDIS_URL', 'GATEWAY_TOKEN', 'OPS_TOKEN'],
  );
  t.same(faultsOf({ MONGODB_URL, OPS_TOKEN: 'dev-ops-token' }), [], 'development takes them');
  const bare = readConfig(env);
  t.equal(bare.host, '0.0.0.0');
  t.equal(bare.warnings.length, 4);
  const full = { GATEWAY_TOKEN: 'g', OPS_TOKEN: 'o', INTERNAL_SERVICE_TOKEN: 'i' };
  t.strictSame(readConfig({ ...env, ...full }).warnings, []);
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
