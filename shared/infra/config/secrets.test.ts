import { mkdirSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { configFaults, MONGODB_URL, PRODUCTION, REDIS_URL, strongSecret } from '#testing/config-faults.ts';
import { readConfig, secretsOf } from './config.ts';
import { FILED, reads } from './environment.ts';
import { PROCESS_TYPES, type ProcessType, type ReadingProcess, SERVICE_NAMES } from './readers.ts';
import type { Variable } from './variable.ts';
import { VARIABLES, type VariableName } from './variables.ts';

t.test('each token, key and secret may be in a file, without its final line break', async (t) => {
  const files = { mongodb: `${MONGODB_URL}\n`, redis: REDIS_URL };
  const folder = t.testdir({ a: 'first\n', b: 'second\r\n', c: ' a , b\n', empty: '', ...files });
  const at = (name: string) => path.join(folder, name);
  const config = readConfig(
    {
      MONGODB_URL,
      GATEWAY_TOKEN_FILE: at('a'),
      GATEWAY_TOKEN_PREVIOUS_FILE: at('c'),
      AUTH_JWT_SECRET_FILE: at('b'),
      OPENAI_API_KEY_FILE: at('a'),
      OPS_TOKEN_FILE: at('empty'),
    },
    'cluster',
  );
  t.strictSame(config.gatewayToken, ['first', 'a', 'b']);
  t.equal(config.auth.jwt.secret, 'second');
  t.strictSame(config.classifier.keys, { OPENAI_API_KEY: 'first' });
  t.equal(config.opsToken, undefined, 'an empty file is an empty token');
  t.strictSame(secretsOf(config).sort(), ['a', 'b', 'first', 'second'], 'the log redacts them');
  const stores = { MONGODB_URL_FILE: at('mongodb'), REDIS_URL_FILE: at('redis') };
  const { mongodb, redis } = readConfig(stores, 'grading');
  t.strictSame([mongodb.url, redis.url], [MONGODB_URL, REDIS_URL], 'connection strings contain passwords');
  for (const name of FILED) {
    const env = name === 'MONGODB_URL' ? {} : { MONGODB_URL };
    t.match(configFaults({ ...env, [`${name}_FILE`]: at('none') })[0], `${name}_FILE: not readable (ENOENT)`);
  }
});

t.test('a folder of credentials has one file for each secret, named after it', async (t) => {
  const CREDENTIALS_DIRECTORY = t.testdir({
    MONGODB_URL,
    INTERNAL_SERVICE_TOKEN: 'internal\n',
    OPS_READ_TOKEN: 'of the folder',
    AUTH_JWT_SECRET: 'foreign',
    README: 'another file',
    elsewhere: { own: 'of its own file' },
  });
  const named = path.join(CREDENTIALS_DIRECTORY, 'elsewhere/own');
  const config = readConfig({ CREDENTIALS_DIRECTORY, OPS_READ_TOKEN_FILE: named }, 'delivery');
  t.equal(config.mongodb.url, MONGODB_URL);
  t.strictSame(config.internalServiceToken, ['internal']);
  t.strictSame(config.opsReadToken, ['of its own file'], 'NAME_FILE has precedence');
  t.equal(config.auth.jwt.secret, '', 'a secret of another process type');
  t.match(configFaults({ CREDENTIALS_DIRECTORY, INTERNAL_SERVICE_TOKEN: 'other' }), [
    /^INTERNAL_SERVICE_TOKEN in CREDENTIALS_DIRECTORY: set beside INTERNAL_SERVICE_TOKEN, wanted one of the two$/,
  ]);
  mkdirSync(path.join(CREDENTIALS_DIRECTORY, 'GATEWAY_TOKEN'));
  t.match(configFaults({ CREDENTIALS_DIRECTORY }, 'web'), [
    /^GATEWAY_TOKEN in CREDENTIALS_DIRECTORY: not readable \(EISDIR\), wanted a file$/,
  ]);
  t.strictSame(configFaults({ CREDENTIALS_DIRECTORY }, 'delivery'), [], 'a process opens no file of another type');
  t.match(configFaults({ MONGODB_URL, CREDENTIALS_DIRECTORY: '' }), [/^CREDENTIALS_DIRECTORY: empty, wanted/]);
  t.strictSame(configFaults({ MONGODB_URL, CREDENTIALS_DIRECTORY: '/nowhere' }), [], 'a platform without secrets');
});

t.test('a file that cannot be read is a fault that names its variable and shows nothing', async (t) => {
  const folder = t.testdir({ good: 'x', short: 'hunter2' });
  mkdirSync(path.join(folder, 'directory'));
  const faults = configFaults({
    ...PRODUCTION,
    OPS_TOKEN_FILE: path.join(folder, 'good'),
    OPENAI_API_KEY_FILE: 'a-key-by-mistake',
    GEMINI_API_KEY_FILE: '',
    DEEPSEEK_API_KEY_FILE: path.join(folder, 'directory'),
    NOTIFICATION_TOKEN_BFF_SERVICE_FILE: path.join(folder, 'short'),
  });
  t.match(faults.toSorted(), [
    /^DEEPSEEK_API_KEY_FILE: not readable \(EISDIR\)/,
    /^GEMINI_API_KEY_FILE: empty, wanted/,
    /^NOTIFICATION_TOKEN_BFF_SERVICE: set to a value not shown here, wanted at least 24 characters/,
    /^OPENAI_API_KEY_FILE: not readable \(ENOENT\)/,
    /^OPS_TOKEN_FILE: set beside OPS_TOKEN, wanted one of the two/,
  ]);
  t.notMatch(faults.join(), /hunter2|by-mistake/);
});

t.test('earlier values of a token are accepted and never sent', async (t) => {
  const config = readConfig(
    {
      MONGODB_URL,
      GATEWAY_TOKEN: 'g2',
      GATEWAY_TOKEN_PREVIOUS: ' g1 ,, g0',
      OPS_TOKEN: 'o',
      INTERNAL_SERVICE_TOKEN: 'i2',
      INTERNAL_SERVICE_TOKEN_PREVIOUS: 'i1',
      ATTEMPT_INTERNAL_SERVICE_TOKEN_PREVIOUS: 'narrow',
      NOTIFICATION_TOKEN_ATTEMPT_SERVICE: 'n2',
      NOTIFICATION_TOKEN_ATTEMPT_SERVICE_PREVIOUS: 'n1',
      NOTIFICATION_SERVICE_URL: 'https://notify',
      PROFILE_SERVICE_URL: 'https://profile',
    },
    'cluster',
  );
  t.strictSame(config.gatewayToken, ['g2', 'g1', 'g0']);
  t.strictSame(config.opsToken, ['o']);
  t.strictSame(config.attempt.receiverToken, ['i2', 'narrow', 'i1'], 'a narrower token may be given up as well');
  t.strictSame(config.notification.senderTokens['attempt-service'], ['n2', 'n1']);
  t.strictSame(config.notification.senderTokens['exam-service'], ['i2', 'i1']);
  t.equal(config.neighbours.notification?.token, 'n2');
  t.equal(config.neighbours.profile?.token, 'i2');
  t.ok(['g1', 'g0', 'i1', 'narrow', 'n1'].every((secret) => secretsOf(config).includes(secret)));
});

t.test('earlier values obey the rules of tokens and require a current one', async (t) => {
  const faults = (more: NodeJS.ProcessEnv) => configFaults({ ...PRODUCTION, ...more });
  const good = strongSecret('one');
  t.strictSame(faults({ OPS_TOKEN_PREVIOUS: good, GATEWAY_TOKEN_PREVIOUS: strongSecret('two') }), []);
  t.strictSame(
    faults({
      ATTEMPT_INTERNAL_SERVICE_TOKEN: good,
      ATTEMPT_INTERNAL_SERVICE_TOKEN_PREVIOUS: PRODUCTION.INTERNAL_SERVICE_TOKEN,
    }),
    [],
    'a token may be split in two',
  );
  t.strictSame(
    faults({
      INTERNAL_SERVICE_TOKEN_PREVIOUS: good,
      ATTEMPT_INTERNAL_SERVICE_TOKEN_PREVIOUS: good,
      NOTIFICATION_TOKEN_BFF_SERVICE_PREVIOUS: good,
    }),
    [],
    'and rotated meanwhile',
  );
  t.match(faults({ OPS_TOKEN_PREVIOUS: `${good},short` }), [/^OPS_TOKEN_PREVIOUS: .*24 characters, each$/]);
  t.match(faults({ OPS_TOKEN_PREVIOUS: 'dev-ops-token' }), [/^OPS_TOKEN_PREVIOUS: .*development default, each$/]);
  const alone = { GATEWAY_TOKEN: '', GATEWAY_TRUST: 'network', GATEWAY_TOKEN_PREVIOUS: good };
  t.match(faults(alone), [/^GATEWAY_TOKEN_PREVIOUS: .* a current token in GATEWAY_TOKEN beside it$/]);
  const open = { MONGODB_URL, HOST: '0.0.0.0', GATEWAY_TOKEN: 'g', AUTH_JWT_SECRET: 'j', INTERNAL_SERVICE_TOKEN: 'i' };
  t.match(configFaults({ ...open, INTERNAL_SERVICE_TOKEN_PREVIOUS: 'dev-internal-token' }), [
    /^HOST: .* while INTERNAL_SERVICE_TOKEN_PREVIOUS has a development default/,
  ]);
});

/** Every process of a cluster: each type, and `web` for each service alone. */
const PROCESSES: readonly ReadingProcess[] = [
  ...PROCESS_TYPES.filter((type) => type !== 'web').map((type) => ({ type, services: new Set<never>() })),
  { type: 'web', services: new Set(SERVICE_NAMES) },
  ...SERVICE_NAMES.map((service) => ({ type: 'web', services: new Set([service]) }) as const),
];

/** The secrets, and the addresses to which processes send personal data or secrets. */
const GUARDED = (Object.keys(VARIABLES) as VariableName[]).filter((name) => 'readers' in VARIABLES[name]);

/** Settings with which each of these variables has its place in the configuration. */
const ADDRESSES = Object.fromEntries(
  GUARDED.filter((name) => VARIABLES[name].kind === 'neighbour' && !name.endsWith('_BASE_URL')).map((name) => [
    name,
    'https://neighbour.example',
  ]),
);
const WEBHOOK_SECRET = `whsec_${Buffer.from(strongSecret('webhook')).toString('base64')}`;
const CHANNELS = {
  NOTIFICATION_CHANNELS: 'webhook,email,webpush',
  NOTIFICATION_WEBHOOK_URL: 'https://hooks.example',
  NOTIFICATION_WEBHOOK_SECRET: WEBHOOK_SECRET,
  NOTIFICATION_EMAIL_HOST: 'mail.example',
  NOTIFICATION_EMAIL_FROM: 'no-reply@school.example',
  NOTIFICATION_EMAIL_USER: 'a-user',
  NOTIFICATION_EMAIL_PASSWORD: 'a-password',
  NOTIFICATION_UNSUBSCRIBE_URL: 'https://unsubscribe.example',
  NOTIFICATION_UNSUBSCRIBE_SECRET: strongSecret('unsubscribe'),
  NOTIFICATION_WEBPUSH_PRIVATE_KEY: 'yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw',
  NOTIFICATION_WEBPUSH_SUBJECT: 'mailto:it@school.example',
};

/** Returns a value of a variable that occurs nowhere else, and the part of it that a configuration contains. */
function markerOf(name: VariableName): { value: string; part: string } {
  const { kind }: Variable = VARIABLES[name];
  const mark = strongSecret(name)
    .replaceAll(/[^a-z]/gi, '')
    .toLowerCase();
  if (kind === 'mongodb') return { value: `mongodb://u:${mark}@127.0.0.1/`, part: mark };
  if (kind === 'redis') return { value: `redis://u:${mark}@127.0.0.1`, part: mark };
  if (kind === 'neighbour' || kind === 'webhook' || kind === 'origins')
    return { value: `https://${mark}.example`, part: mark };
  if (kind === 'webhook-secret') {
    const value = `whsec_${Buffer.from(strongSecret(name)).toString('base64')}`;
    return { value, part: value };
  }
  return { value: strongSecret(name), part: strongSecret(name) };
}

/** Returns every text of a configuration. */
function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  if (value instanceof Set) return [...value].flatMap(textsIn);
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : [];
}

const settingsOf = ({ services }: ReadingProcess) => (services.size === 0 ? {} : { SERVICES: [...services].join(',') });
const label = ({ type, services }: ReadingProcess) => [type, ...services].join(' ');

t.test('a configuration contains exactly the secrets and addresses that its process type declares', async (t) => {
  for (const name of GUARDED) {
    const { value, part } = markerOf(name);
    const alias = name.endsWith('_BASE_URL') ? { [name.replace('_BASE_URL', '_URL')]: undefined } : {};
    const current =
      VARIABLES[name].kind === 'tokens' ? { [name.replace('_PREVIOUS', '')]: strongSecret('current') } : {};
    const env = { MONGODB_URL, ...ADDRESSES, ...CHANNELS, ...alias, ...current, [name]: value };
    for (const process of PROCESSES) {
      const config = readConfig({ ...env, ...settingsOf(process) }, process.type);
      const isHeld = textsIn(config).some((text) => text.includes(part));
      t.equal(isHeld, reads(process, name), `${name} in ${label(process)}`);
    }
  }
});

t.test('each process type starts in production with its own secrets alone', async (t) => {
  const { NODE_ENV, AUTH_JWT_SECRET, GATEWAY_TOKEN, INTERNAL_SERVICE_TOKEN, TRUSTED_PROXIES } = PRODUCTION;
  const stores = { NODE_ENV, MONGODB_URL, REDIS_URL };
  for (const type of PROCESS_TYPES.filter((one) => one !== 'web')) t.strictSame(configFaults(stores, type), [], type);
  t.strictSame(configFaults({ NODE_ENV, MONGODB_URL }, 'release'), [], 'release has no Redis');
  t.match(configFaults({ NODE_ENV, MONGODB_URL }, 'grading'), [/^REDIS_URL: not set/]);

  const door = (services: string, more: NodeJS.ProcessEnv) =>
    configFaults({ ...stores, GATEWAY_TOKEN, SERVICES: services, ...more }, 'web');
  t.strictSame(door('attempt,classifier', {}), []);
  t.match(door('auth', {}), [/^AUTH_JWT_SECRET: not set/, /^TRUSTED_PROXIES: not set/]);
  t.strictSame(door('auth', { AUTH_JWT_SECRET, TRUSTED_PROXIES }), []);
  t.match(door('notification', {}), [/^NOTIFICATION_INTERNAL_SERVICE_TOKEN: no token/]);
  t.strictSame(door('notification', { INTERNAL_SERVICE_TOKEN }), []);
});

t.test('a secret of another process type is not read, and in production a warning names it', async (t) => {
  const secrets = Object.fromEntries(
    FILED.filter((name) => !name.endsWith('_PREVIOUS')).map((name) => [name, markerOf(name).value]),
  );
  const env = { ...PRODUCTION, ...ADDRESSES, ...CHANNELS, ...secrets };
  const refused = (process: ReadingProcess) =>
    readConfig({ ...env, ...settingsOf(process) }, process.type).warnings.flatMap((warning) => {
      const [, name] = /^(\w+) is set but `\w+`( with SERVICES=[\w,]+)? does not use it: remove/.exec(warning) ?? [];
      return name ?? [];
    });
  for (const process of PROCESSES) {
    const foreign = Object.keys(secrets).filter((name) => !reads(process, name as VariableName));
    t.strictSame(refused(process), foreign, label(process));
  }
  const warnings = (given: NodeJS.ProcessEnv, type: ProcessType = 'grading') => readConfig(given, type).warnings;
  const stores = { NODE_ENV: 'production', MONGODB_URL, REDIS_URL };
  t.strictSame(warnings({ ...stores, AUTH_JWT_SECRET: 'short', GATEWAY_TOKEN_FILE: '/nowhere' }), [
    'GATEWAY_TOKEN_FILE is set but `grading` does not use it: remove it from this process',
    'AUTH_JWT_SECRET is set but `grading` does not use it: remove it from this process',
  ]);
  const CREDENTIALS_DIRECTORY = t.testdir({ OPS_TOKEN: 'foreign', OPS_READ_TOKEN: strongSecret('own') });
  t.strictSame(warnings({ ...stores, CREDENTIALS_DIRECTORY }), [
    'OPS_TOKEN in CREDENTIALS_DIRECTORY is set but `grading` does not use it: remove it from this process',
  ]);
  t.strictSame(warnings({ ...stores, GATEWAY_TOKEN: '' }), [], 'an empty token is no secret');
  t.strictSame(warnings({ MONGODB_URL, GATEWAY_TOKEN: 'g' }), [], 'npm start passes one environment to all processes');
  t.match(warnings({ ...PRODUCTION, SERVICES: 'attempt' }, 'web'), [
    'AUTH_JWT_SECRET is set but `web` with SERVICES=attempt does not use it: remove it from this process',
  ]);
});
