import path from 'node:path';
import t from 'tap';
import { readConfig } from '#infra/config/config.ts';
import { FILED, reads } from '#infra/config/environment.ts';
import { PROCESS_TYPES, type ProcessType, SERVICE_NAMES } from '#infra/config/readers.ts';
import { DEVELOPMENT_DEFAULTS, DEVELOPMENT_JWT_SECRET } from '#infra/config/variable.ts';
import { VARIABLES, type VariableName } from '#infra/config/variables.ts';
import { configFaults, MONGODB_URL, REDIS_URL, strongSecret } from '#testing/config-faults.ts';
import { composeProcesses, composeSecrets, type Manifest, manifests, podOf, read, unitSetting } from './manifests.ts';

/** The types that platforms run; operators start the tool by hand. */
const TYPES = PROCESS_TYPES.filter((type) => type !== 'examhall');
const mayRead = (type: ProcessType, name: VariableName) =>
  reads({ type, services: new Set(type === 'web' ? SERVICE_NAMES : []) }, name);
const secretsOf = (type: ProcessType) => FILED.filter((name) => mayRead(type, name));
const ALL = manifests().map(({ manifest }) => manifest);
const named = (kind: string, name: string): Manifest =>
  ALL.find((one) => one.kind === kind && one.metadata.name === name);
const workload = (type: ProcessType) => named(type === 'release' ? 'Job' : 'Deployment', type);
const settings = named('ConfigMap', 'examhall').data;

/**
 * Settings that an operator adds to those of the repository. The last two are required beside their
 * secrets.
 */
const OWN_SETTINGS = {
  TRUSTED_PROXIES: '10.0.0.0/8',
  NOTIFICATION_EMAIL_USER: 'a-user',
  NOTIFICATION_WEBPUSH_SUBJECT: 'mailto:it@school.example',
};

/** Returns a value of a secret that production accepts. */
function goodValue(name: VariableName): string {
  if (name === 'MONGODB_URL') return MONGODB_URL;
  if (name === 'REDIS_URL') return REDIS_URL;
  if (name === 'NOTIFICATION_WEBPUSH_PRIVATE_KEY') return 'yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw';
  const isWebhook = VARIABLES[name].kind === 'webhook-secret';
  return isWebhook ? `whsec_${Buffer.from(strongSecret(name)).toString('base64')}` : strongSecret(name);
}

/** The variables that a platform passes to a process, and the names of its secret files. */
interface Passed {
  env: Readonly<Record<string, string>>;
  secrets: readonly VariableName[];
}

/**
 * Returns the warnings of a production process about secrets that a platform passes to it without
 * need. Throws if it would not start.
 */
function foreignIn(folder: string, type: ProcessType, { env }: Passed): string[] {
  const own = { ...env, NODE_ENV: 'production', CREDENTIALS_DIRECTORY: path.join(folder, type) };
  return readConfig(own, type).warnings.filter((warning) => warning.includes('does not use it'));
}

/** Returns the files of the secrets of each type, as a folder of `t.testdir`. */
function secretFiles(passed: Record<string, Passed>): Record<string, Record<string, string>> {
  const files = (secrets: readonly VariableName[]) =>
    Object.fromEntries(secrets.map((name) => [name, `${goodValue(name)}\n`]));
  return Object.fromEntries(Object.entries(passed).map(([type, { secrets }]) => [type, files(secrets)]));
}

t.test('Kubernetes mounts into each pod exactly the secrets that its process type reads', async (t) => {
  const passed: Record<string, Passed> = {};
  for (const type of TYPES) {
    const { volumes, containers } = podOf(workload(type));
    const [{ env, envFrom, volumeMounts }] = containers;
    const [{ secret, name }, ...others] = volumes;
    t.strictSame(others, []);
    t.match(secret, { secretName: 'examhall', optional: true }, 'a process names a missing secret better than a pod');
    for (const { key, path: file } of secret.items) t.equal(file, key);
    const secrets = secret.items.map(({ key }: { key: string }) => key);
    t.strictSame(secrets, secretsOf(type), type);
    t.strictSame(envFrom, [{ configMapRef: { name: 'examhall' } }], 'no secret is in the environment');
    const mountPath = '/run/secrets/examhall';
    t.match(env.at(-1), { name: 'CREDENTIALS_DIRECTORY', value: mountPath });
    t.strictSame(volumeMounts, [{ name, mountPath, readOnly: true }]);
    passed[type] = { env: { ...settings, ...OWN_SETTINGS }, secrets };
  }
  const folder = t.testdir(secretFiles(passed));
  for (const type of TYPES) t.strictSame(foreignIn(folder, type, passed[type] as Passed), [], type);
});

t.test('the placeholder of the proxies stops the front doors, and no other process', async (t) => {
  const credentials = Object.fromEntries(secretsOf('web').map((name) => [name, goodValue(name)]));
  const env = { ...settings, ...credentials, NODE_ENV: 'production' };
  t.match(configFaults(env, 'web'), [/^TRUSTED_PROXIES: set to "networks-of-the-gateway", wanted IP addresses/]);
});

t.test('compose mounts each secret as a file, into the processes that read it', async (t) => {
  const files = composeSecrets();
  const secrets = Object.keys(files) as VariableName[];
  for (const [name, { file }] of Object.entries(files))
    t.equal(file, `\${EXAMHALL_SECRETS:-./deploy/development-secrets}/${name}`);
  const passed: Record<string, Passed> = {};
  for (const [type, service] of Object.entries(composeProcesses()) as [ProcessType, Manifest][]) {
    const { environment: env = {}, secrets: mounted = [] } = service;
    t.strictSame([...mounted].sort(), secrets.filter((name) => mayRead(type, name)).sort(), type);
    const inEnvironment = FILED.filter((name) => env[name] !== undefined);
    t.strictSame(
      inEnvironment,
      secretsOf(type).filter((name) => name.endsWith('_URL')),
      'stores without passwords',
    );
    t.equal(env.CREDENTIALS_DIRECTORY, '/run/secrets', 'where compose mounts them');
    passed[type] = { env: { ...env, TRUSTED_PROXIES: 'none' }, secrets: mounted as VariableName[] };
  }
  const folder = t.testdir(secretFiles(passed));
  for (const type of TYPES) t.strictSame(foreignIn(folder, type, passed[type] as Passed), [], type);
  const development = { ...DEVELOPMENT_DEFAULTS, AUTH_JWT_SECRET: DEVELOPMENT_JWT_SECRET };
  for (const name of secrets)
    t.equal(read(`deploy/development-secrets/${name}`).trim(), { ...development }[name as 'OPS_TOKEN'] ?? '', name);
  const [, steps = ''] = read('.github/workflows/image.yml').split('name: secrets of this run');
  t.match(steps, `for name in ${secrets.join(' ')}; do`, 'the workflow makes each of them');
});

t.test('systemd loads into each unit exactly the secrets that its process type reads', async (t) => {
  for (const type of TYPES) {
    const loaded = unitSetting(read(`deploy/systemd/examhall@${type}.service.d/secrets.conf`), 'LoadCredential');
    // A relative name: systemd starts the unit although the file is missing in its credential
    // store.
    t.strictSame(
      loaded,
      secretsOf(type).map((name) => `${name}:examhall.${name}`),
      type,
    );
  }
  const [, tool = ''] = /systemd-run (.*)examhall status/.exec(read('docs/deploying.md').replaceAll('\\\n', '')) ?? [];
  const loaded = [...tool.matchAll(/-p LoadCredential=(\w+):examhall\.(\w+)/g)].map(([, name, file]) => [name, file]);
  t.strictSame(
    loaded,
    secretsOf('examhall').map((name) => [name, name]),
    'the tool',
  );
});

/** Returns the egress rules of a process type: those of all policies that select its pods. */
function egressOf(type: ProcessType): Manifest[] {
  return ALL.filter(({ kind }) => kind === 'NetworkPolicy').flatMap(({ spec }) => {
    const { matchExpressions = [] } = spec.podSelector;
    const isSelected = matchExpressions.every(({ key, operator, values }: Manifest) => {
      t.equal(key, 'app.kubernetes.io/component');
      return values.includes(type) === (operator === 'In');
    });
    return isSelected ? (spec.egress ?? []) : [];
  });
}

t.test('Kubernetes lets each pod call only what its process type calls', async (t) => {
  const portsTo = (type: ProcessType, isPeer: (peer: Manifest) => boolean) =>
    egressOf(type)
      .filter(({ to }) => to?.some(isPeer))
      .flatMap(({ ports }) => ports.map(({ port }: { port: number }) => port));
  const isService = ({ namespaceSelector }: Manifest) => namespaceSelector?.matchLabels !== undefined;
  const isOwnDoor = ({ podSelector }: Manifest) => podSelector !== undefined;
  const isAddress = ({ ipBlock }: Manifest) => ipBlock !== undefined;
  const urls = (Object.keys(VARIABLES) as VariableName[]).filter((name) => name.endsWith('_SERVICE_URL'));

  for (const type of TYPES) {
    const has = (name: VariableName) => mayRead(type, name);
    // A process that reads an address without the token to call it only needs to know that there is
    // one.
    const calls = urls.some(has) && has('INTERNAL_SERVICE_TOKEN');
    t.strictSame(portsTo(type, isService), calls ? [443] : [], `${type}: other services`);
    const notifies = has('NOTIFICATION_SERVICE_URL') && has('NOTIFICATION_INTERNAL_SERVICE_TOKEN');
    t.strictSame(portsTo(type, isOwnDoor), notifies ? [3000] : [], `${type}: front doors`);
    // Subscribers to events are in the database.
    const isPublic = has('AI_CLASSIFIER_API_KEY') || has('NOTIFICATION_WEBHOOK_SECRET') || type === 'upkeep';
    const wanted = [
      ...(has('MONGODB_URL') ? [27017] : []),
      ...(has('REDIS_URL') ? [6379] : []),
      ...(isPublic ? [443] : []),
      ...(has('NOTIFICATION_EMAIL_PASSWORD') ? [465, 587] : []),
    ];
    t.strictSame(portsTo(type, isAddress), wanted, `${type}: addresses`);

    const [names, ...others] = egressOf(type);
    t.strictSame([names?.to, names?.ports.map(({ port }: { port: number }) => port)], [undefined, [53, 53]]);
    for (const { to } of others) {
      t.ok(Array.isArray(to), 'no port is open to every address');
      for (const { ipBlock } of to.filter(isAddress)) {
        const linkLocal = ipBlock.cidr === '::/0' ? 'fe80::/10' : '169.254.0.0/16';
        t.ok(ipBlock.except.includes(linkLocal), `${type}: ${ipBlock.cidr}`);
      }
    }
    const toPublic = egressOf(type).find(({ ports, to }) => to?.some(isAddress) && ports[0].port === 443);
    for (const { ipBlock } of toPublic?.to ?? [])
      t.ok(ipBlock.except.includes(ipBlock.cidr === '::/0' ? 'fc00::/7' : '10.0.0.0/8'), 'no private address');
  }
});
