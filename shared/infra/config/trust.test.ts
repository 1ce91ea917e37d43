import t from 'tap';
import { readConfig } from '#infra/config/config.ts';
import { DEVELOPMENT_DEFAULTS, DEVELOPMENT_JWT_SECRET } from '#infra/config/variable.ts';
import { configFaults, MONGODB_URL, PRODUCTION, REDIS_URL, strongSecret } from '#testing/config-faults.ts';

const STORES = { NODE_ENV: 'production', MONGODB_URL, REDIS_URL };

t.test('production lists every missing, well-known, short and equal secret at once, and shows none', async (t) => {
  const env = {
    ...STORES,
    INTERNAL_SERVICE_TOKEN: DEVELOPMENT_DEFAULTS.INTERNAL_SERVICE_TOKEN,
    OPS_TOKEN: 'short-hunter',
    ATTEMPT_INTERNAL_SERVICE_TOKEN: 'twice-hunter-twice-hunter',
    NOTIFICATION_TOKEN_EXAM_SERVICE: 'twice-hunter-twice-hunter',
  };
  const faults = configFaults(env);
  t.match(faults, [
    /^INTERNAL_SERVICE_TOKEN: .* not the development default$/,
    /^OPS_TOKEN: .* wanted at least 24 characters$/,
    /^AUTH_JWT_SECRET: not set/,
    /^NOTIFICATION_TOKEN_EXAM_SERVICE, ATTEMPT_INTERNAL_SERVICE_TOKEN: set to the same value/,
    /^GATEWAY_TOKEN: not set, wanted a token, or GATEWAY_TRUST=network/,
    /^TRUSTED_PROXIES: not set, wanted the addresses of the gateway, or none/,
  ]);
  t.equal(faults.length, 6);
  t.notMatch(faults.join(), /hunter|dev-internal/);
  t.strictSame(configFaults(PRODUCTION), []);
  t.strictSame(configFaults({ ...env, NODE_ENV: 'development' }), [], 'development accepts them');
});

t.test('production requires 24 characters of each token, and a value that no other secret has', async (t) => {
  const faults = (more: NodeJS.ProcessEnv) => configFaults({ ...PRODUCTION, ...more });
  for (const name of [
    'GATEWAY_TOKEN',
    'INTERNAL_SERVICE_TOKEN',
    'OPS_TOKEN',
    'OPS_READ_TOKEN',
    'NOTIFICATION_TOKEN_BFF_SERVICE',
  ]) {
    const good = strongSecret(name).slice(0, 24);
    t.match(faults({ [name]: good.slice(1) }), [new RegExp(`^${name}: .*at least 24 characters`)], name);
    t.strictSame(faults({ [name]: good }), [], name);
    t.match(faults({ [name]: PRODUCTION.AUTH_JWT_SECRET }), [/set to the same value/], name);
    t.match(faults({ [name]: DEVELOPMENT_JWT_SECRET }), [/not the development default/], name);
  }
  t.strictSame(faults({ AI_CLASSIFIER_API_KEY: 'short', OPENAI_API_KEY: 'short' }), [], 'a provider chooses its keys');
});

t.test('production refuses a secret that is a pattern or a placeholder, at any length', async (t) => {
  const faults = (more: NodeJS.ProcessEnv) => configFaults({ ...PRODUCTION, ...more });
  const names = ['GATEWAY_TOKEN', 'OPS_READ_TOKEN', 'AUTH_JWT_SECRET'];
  for (const name of [...names, 'GATEWAY_TOKEN_PREVIOUS', 'AUTH_JWT_PREVIOUS_SECRETS']) {
    for (const value of ['d'.repeat(40), '0123456789'.slice(1).repeat(5)])
      t.match(faults({ [name]: value }), [new RegExp(`^${name}: .* wanted at least 10 different characters`)], value);
    t.strictSame(faults({ [name]: '0123456789'.repeat(4) }), [], 'ten are enough');
    for (const value of [
      'CHANGE-ME-before-production-0123456789',
      'changeme-changeme-0123456789-changeme',
      'please-Replace_me-with-a-random-value',
      'example-of-a-token-with-40-characters-abc',
      'a-placeholder-with-more-than-32-characters',
      'Secret-0123456789-secret-0123456789',
      'my-secret-token-12345678901234567890',
    ]) {
      const [fault = '', ...others] = faults({ [name]: value });
      t.match(fault, new RegExp(`^${name}: .* wanted a random value, not a placeholder`), value);
      t.strictSame(others, []);
      t.notMatch(fault, value, 'the secret is not shown');
    }
    t.strictSame(faults({ [name]: 'secretly-a-value-that-nobody-can-guess' }), [], 'a word of its own');
  }
});

t.test('an earlier value is no secret of another variable either', async (t) => {
  const faults = (more: NodeJS.ProcessEnv) => configFaults({ ...PRODUCTION, ...more });
  const [one, other] = [strongSecret('one'), strongSecret('other')];
  for (const [env, names] of [
    [{ GATEWAY_TOKEN_PREVIOUS: PRODUCTION.INTERNAL_SERVICE_TOKEN }, 'GATEWAY_TOKEN_PREVIOUS, INTERNAL_SERVICE_TOKEN'],
    [{ GATEWAY_TOKEN_PREVIOUS: one, OPS_TOKEN_PREVIOUS: one }, 'GATEWAY_TOKEN_PREVIOUS, OPS_TOKEN_PREVIOUS'],
    [{ AUTH_JWT_PREVIOUS_SECRETS: `${other},${one}`, OPS_TOKEN: one }, 'OPS_TOKEN, AUTH_JWT_PREVIOUS_SECRETS'],
    [
      { INTERNAL_SERVICE_TOKEN_PREVIOUS: one, ATTEMPT_INTERNAL_SERVICE_TOKEN: one },
      'INTERNAL_SERVICE_TOKEN_PREVIOUS, ATTEMPT_INTERNAL_SERVICE_TOKEN',
    ],
    [
      { NOTIFICATION_TOKEN_BFF_SERVICE: one, NOTIFICATION_TOKEN_EXAM_SERVICE_PREVIOUS: one },
      'NOTIFICATION_TOKEN_BFF_SERVICE, NOTIFICATION_TOKEN_EXAM_SERVICE_PREVIOUS',
    ],
  ] as const) {
    const found = faults(env);
    t.equal(found.length, 1, names);
    const [said, ...rest] = (found[0] ?? '').split(': ');
    t.same(said?.split(', ').sort(), names.split(', ').sort());
    t.match(rest.join(), /^set to the same value/);
  }
  t.strictSame(
    faults({ OPS_TOKEN_PREVIOUS: `${one},${PRODUCTION.OPS_TOKEN}` }),
    [],
    'its own current value is no other',
  );
});

t.test('production starts without a gateway token only where the network is trusted', async (t) => {
  const { GATEWAY_TOKEN: _token, ...rest } = PRODUCTION;
  t.match(configFaults({ ...rest, GATEWAY_TOKEN: '' }), [/^GATEWAY_TOKEN: empty, wanted/]);
  t.match(configFaults({ ...rest, GATEWAY_TRUST: 'token' }), [/^GATEWAY_TOKEN: not set, wanted/]);
  t.match(configFaults({ ...rest, GATEWAY_TRUST: 'yes' }), [/^GATEWAY_TRUST: set to "yes"/, /^GATEWAY_TOKEN/]);
  const config = readConfig({ ...rest, GATEWAY_TRUST: 'network' }, 'cluster');
  t.match(config.warnings[0], /^GATEWAY_TOKEN is not set/);
  t.match(
    readConfig({ ...rest, GATEWAY_TRUST: 'network', GATEWAY_TOKEN: '' }, 'cluster').warnings[0],
    /^GATEWAY_TOKEN is empty/,
  );
});

t.test('outside production an address that other machines reach needs secrets of its own', async (t) => {
  const own = { MONGODB_URL, GATEWAY_TOKEN: 'g', AUTH_JWT_SECRET: 'j' };
  for (const HOST of ['0.0.0.0', '::', '192.0.2.7', '127.evil.example', 'exam.example']) {
    t.match(configFaults({ MONGODB_URL, HOST }), [/^HOST: .* AUTH_JWT_SECRET has a dev.* and GATEWAY_TOKEN is unset/]);
    t.match(configFaults({ ...own, HOST, GATEWAY_TOKEN: undefined }), [/while GATEWAY_TOKEN is unset, wanted/], HOST);
    for (const [name, value] of Object.entries(DEVELOPMENT_DEFAULTS))
      t.match(configFaults({ ...own, HOST, [name]: value }), [new RegExp(`while ${name} has a development default`)]);
    t.match(configFaults({ ...own, HOST, NODE_ENV: 'test', AUTH_JWT_SECRET: undefined }), [/^HOST/], 'test too');
    t.match(readConfig({ ...own, HOST }, 'web').warnings, [/^GATEWAY_TOKEN, AUTH_JWT_SECRET can be guessed by any/]);
    const strong = { GATEWAY_TOKEN: strongSecret('gateway'), AUTH_JWT_SECRET: strongSecret('jwt') };
    t.strictSame(readConfig({ ...own, ...strong, HOST }, 'web').warnings, [], HOST);
    t.strictSame(configFaults({ MONGODB_URL, HOST, ...DEVELOPMENT_DEFAULTS }, 'grading'), [], 'it reads none of these');
    const opened = readConfig({ MONGODB_URL, HOST, EXAMHALL_OPEN: '1' }, 'cluster');
    t.match(opened.warnings, [/any machine that reaches .* can act as any user/], 'it starts, with a warning');
  }
  for (const HOST of ['127.0.0.1', '127.9.9.9', '::1', 'localhost'])
    t.strictSame(readConfig({ MONGODB_URL, HOST, ...DEVELOPMENT_DEFAULTS }, 'cluster').warnings, [], HOST);
});

t.test(
  'requests must name a host of loopback outside production, if the process listens there and is not opened',
  async (t) => {
    const isStrict = (env: NodeJS.ProcessEnv) => readConfig({ MONGODB_URL, ...env }, 'cluster').loopbackOnly;
    for (const HOST of ['127.0.0.1', '127.9.9.9', '::1', 'localhost']) {
      t.equal(isStrict({ HOST }), true, HOST);
      t.equal(isStrict({ HOST, EXAMHALL_OPEN: '1' }), false, HOST);
    }
    t.equal(isStrict({ HOST: '0.0.0.0', EXAMHALL_OPEN: '1' }), false);
    t.equal(isStrict({ HOST: '0.0.0.0', GATEWAY_TOKEN: 'g', AUTH_JWT_SECRET: 'j' }), false);
    t.equal(readConfig({ ...PRODUCTION, HOST: '127.0.0.1' }, 'cluster').loopbackOnly, false);
  },
);

/** The warnings of a process that reads every variable. */
const warnings = (env: NodeJS.ProcessEnv) => readConfig(env, 'cluster').warnings;

t.test('production warns about missing tokens, and about each address of plain http', async (t) => {
  t.strictSame(warnings(PRODUCTION), []);
  const { OPS_TOKEN: _ops, INTERNAL_SERVICE_TOKEN: _internal, ...bare } = PRODUCTION;
  const others = [/^INTERNAL_SERVICE_TOKEN is/, /^no receiver token/];
  t.match(warnings({ ...bare, SERVICES: 'attempt' }), [/^OPS_TOKEN is .*console, and \/metrics refuses/, ...others]);
  const OPS_READ_TOKEN = strongSecret('read');
  t.match(warnings({ ...bare, OPS_READ_TOKEN, SERVICES: 'attempt' }), [/^OPS_TOKEN is .*the console$/, ...others]);
  const worker = { NODE_ENV: 'production', MONGODB_URL, REDIS_URL, METRICS_PORT: '9464' };
  t.match(readConfig(worker, 'grading').warnings, [/^OPS_READ_TOKEN is not set: \/metrics of METRICS_PORT refuses/]);
  t.strictSame(readConfig({ ...worker, OPS_READ_TOKEN }, 'grading').warnings, []);
  const addresses = {
    PROFILE_SERVICE_URL: 'http://profile',
    ANALYTICS_SERVICE_BASE_URL: 'http://analytics',
    AUDIT_SERVICE_URL: 'https://audit',
    AUDIT_SERVICE_BASE_URL: 'http://unused',
    AI_CLASSIFIER_ALLOWED_BASE_URLS: 'https://a.example,http://b.example',
  };
  t.match(warnings({ ...PRODUCTION, ...addresses }), [
    /^PROFILE_SERVICE_URL is plain http/,
    /^ANALYTICS_SERVICE_BASE_URL is plain http/,
    /^AI_CLASSIFIER_ALLOWED_BASE_URLS is plain http/,
  ]);
  t.strictSame(warnings({ MONGODB_URL, ...addresses }), [], 'development does not warn');
});

t.test('production that serves accounts requires the addresses of its proxies, or `none`', async (t) => {
  const { TRUSTED_PROXIES: _none, ...env } = PRODUCTION;
  const proxies = (TRUSTED_PROXIES: string) => readConfig({ ...env, TRUSTED_PROXIES }, 'web').auth.trustedProxies;
  t.match(configFaults(env, 'web'), [/^TRUSTED_PROXIES: not set, wanted the addresses of the gateway, or none/]);
  t.strictSame(configFaults({ ...env, SERVICES: 'attempt,classifier,notification' }, 'web'), []);
  t.strictSame(configFaults(env, 'upkeep'), [], 'no worker has callers');
  t.strictSame(configFaults({ MONGODB_URL }, 'web'), [], 'nor need development say so');
  for (const none of ['none', '']) t.strictSame(proxies(none), []);
  t.strictSame(proxies('10.0.0.0/8'), ['10.0.0.0/8']);
  for (const wrong of ['None', 'none,10.0.0.1', 'the-gateway'])
    t.match(configFaults({ ...env, TRUSTED_PROXIES: wrong }, 'web'), [/^TRUSTED_PROXIES: .*, or none$/], wrong);
  for (const all of ['0.0.0.0/0', '10.0.0.0/8, ::/0'])
    t.match(warnings({ ...env, TRUSTED_PROXIES: all }), [/^TRUSTED_PROXIES contains every address/], all);
});

t.test(
  'production warns about stores without TLS or password on other machines, and about cheap password hashes',
  async (t) => {
    const of = (more: NodeJS.ProcessEnv) => warnings({ ...PRODUCTION, ...more });
    const [plain, open] = [/is without TLS: personal data/, /has no password: any machine/];
    t.match(of({ MONGODB_URL: 'mongodb://127.0.0.1,db.example/' }), [plain, open]);
    t.match(of({ MONGODB_URL: 'mongodb://u:p@db.example/' }), [plain]);
    t.match(of({ MONGODB_URL: 'mongodb://db.example/?tls=true' }), [open]);
    for (const MONGODB_URL of [
      'mongodb://u:p@db.example/?tls=true',
      'mongodb://db.example/?ssl=true&authMechanism=MONGODB-X509',
      'mongodb+srv://u:p@cluster.example/',
      'mongodb://127.0.0.1,[::1],localhost/',
      'mongodb://%2Frun%2Fmongodb.sock/',
    ])
      t.strictSame(of({ MONGODB_URL }), [], MONGODB_URL);
    t.match(of({ REDIS_URL: 'redis://redis.example' }), [plain, open]);
    t.match(of({ REDIS_URL: 'rediss://redis.example' }), [open]);
    for (const url of ['rediss://:p@redis.example', 'redis://localhost', 'redis://[::1]'])
      t.strictSame(of({ REDIS_URL: url }), [], url);
    t.notMatch(of({ MONGODB_URL: 'mongodb://u:hunter2@db.example/' }).join(), 'hunter2');
    t.match(of({ AUTH_BCRYPT_COST: '9' }), [/^AUTH_BCRYPT_COST is below 10/]);
    t.strictSame(of({ AUTH_BCRYPT_COST: '10' }), []);
    t.strictSame(of({ AUTH_BCRYPT_COST: '4', SERVICES: 'attempt', AUTH_JWT_SECRET: '' }), [], 'no accounts, no hashes');
  },
);
