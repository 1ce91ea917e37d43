import t from 'tap';
import { readConfig } from '#infra/config/config.ts';
import { FILED, reads } from '#infra/config/environment.ts';
import { PROCESS_TYPES, type ProcessType, type ReadingProcess, SERVICE_NAMES } from '#infra/config/readers.ts';
import type { Variable } from '#infra/config/variable.ts';
import { VARIABLES, type VariableName } from '#infra/config/variables.ts';
import { configFaults, MONGODB_URL, PRODUCTION, REDIS_URL, strongSecret } from '#testing/config-faults.ts';

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

t.test('the name of a model is one that a reply can have', async (t) => {
  for (const name of ['AI_CLASSIFIER_MODEL', 'OPENAI_MODEL']) {
    const named = (model: string) => readConfig({ MONGODB_URL: 'mongodb://127.0.0.1/', [name]: model }, 'classifier');
    t.throws(() => named('m'.repeat(201)), { message: RegExp(`${name}.*at most 200 characters`) });
    t.doesNotThrow(() => named('m'.repeat(200)));
  }
});
