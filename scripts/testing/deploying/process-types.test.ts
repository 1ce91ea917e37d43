import { execFileSync, spawnSync } from 'node:child_process';
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import t from 'tap';
import { FILED } from '#infra/config/environment.ts';
import { PROCESS_TYPES } from '#infra/config/readers.ts';
import { VARIABLES } from '#infra/config/variables.ts';
import { parseProcfile } from '#scripts/start/supervisor/plan.ts';
import { composeProcesses, type Manifest, manifests, podOf, read, unitSetting } from './manifests.ts';

const PROCFILE = parseProcfile(read('Procfile')).map(({ name }) => name);
const PROCESSES = PROCFILE.filter((name) => name !== 'release').sort();
const WORKERS = PROCESSES.filter((name) => name !== 'web');
const ALL = manifests();
const ofKind = (kind: string): Manifest[] =>
  ALL.filter(({ manifest }) => manifest.kind === kind).map(({ manifest }) => manifest);
const namesOf = (kind: string): string[] => ofKind(kind).map(({ metadata }) => metadata.name);
/** Time in which a process drains: SHUTDOWN_TIMEOUT_MS, its best-effort work and its stores (s). */
const DRAIN_SECONDS = 25;

t.test('every platform runs the process types of the Procfile, each with its name as argument', async (t) => {
  t.strictSame([...PROCESS_TYPES].sort(), [...PROCFILE, 'examhall'].sort(), 'the types that declare their secrets');
  const compose = composeProcesses();
  t.strictSame(Object.keys(compose).sort(), [...PROCFILE].sort(), 'compose.yaml');
  for (const [name, { command }] of Object.entries(compose)) t.strictSame(command, [name]);

  t.strictSame(namesOf('Deployment').sort(), PROCESSES, 'deploy/kubernetes');
  t.strictSame(namesOf('Job'), ['release']);
  for (const manifest of [...ofKind('Deployment'), ...ofKind('Job')]) {
    const { name } = manifest.metadata;
    const [container, ...others] = podOf(manifest).containers;
    t.strictSame([container.name, container.args, others], [name, [name], []]);
    const labels = { 'app.kubernetes.io/name': 'examhall', 'app.kubernetes.io/component': name };
    t.strictSame([manifest.metadata.labels, manifest.spec.template.metadata.labels], [labels, labels], name);
    if (manifest.kind === 'Deployment') t.strictSame(manifest.spec.selector.matchLabels, labels, name);
  }
  t.strictSame(namesOf('ScaledObject').sort(), PROCESSES, 'deploy/kubernetes/keda');

  const units = (names: readonly string[]) => names.map((name) => `examhall@${name}.service`);
  const target = read('deploy/systemd/examhall.target');
  t.strictSame(unitSetting(target, 'Wants').sort(), units(PROCFILE).sort(), 'deploy/systemd');
  const once = read('deploy/systemd/examhall@release.service.d/once.conf');
  t.strictSame(unitSetting(once, 'Before').sort(), units(PROCESSES), 'the processes start after release');

  const { formation } = JSON.parse(read('app.json'));
  t.strictSame(Object.keys(formation).sort(), PROCESSES, 'app.json');
});

t.test('compose builds or pulls the image once, by the process that all others wait for', async (t) => {
  const { release, ...others } = composeProcesses();
  t.match(release, { build: '.', pull_policy: 'missing' });
  for (const [name, { image, build, pull_policy, depends_on }] of Object.entries(others)) {
    t.strictSame(
      { image, build, pull_policy },
      { image: release?.image, build: undefined, pull_policy: 'never' },
      name,
    );
    t.match(depends_on, { release: { condition: 'service_completed_successfully' } }, name);
  }
});

t.test('every platform turns the opt-in workers on that it runs', async (t) => {
  const flags = ['AI_CLASSIFIER_WORKER_ENABLED', 'AI_GENERATION_SETTLEMENT_WORKER_ENABLED'];
  const { env } = JSON.parse(read('app.json')) as { env: Record<string, { value?: string }> };
  const unit = unitSetting(read('deploy/systemd/examhall@.service'), 'Environment').map((pair) => pair.split('='));
  const settings: Record<string, Readonly<Record<string, string | undefined>>> = {
    'app.json': Object.fromEntries(Object.entries(env).map(([name, { value }]) => [name, value])),
    'deploy/kubernetes': Object.assign({}, ...ofKind('ConfigMap').map(({ data }) => data)),
    'deploy/systemd': Object.fromEntries(unit),
    ...Object.fromEntries(
      Object.entries(composeProcesses()).map(([name, { environment = {} }]) => [`compose.yaml ${name}`, environment]),
    ),
  };
  for (const [platform, values] of Object.entries(settings))
    for (const flag of flags) t.equal(values[flag], '1', `${platform}: ${flag}`);
  for (const command of ['heroku config:set', 'dokku config:set --no-restart examhall'])
    t.match(read('docs/deploying.md'), `${command} ${flags.map((flag) => `${flag}=1`).join(' ')}`, command);
});

t.test('every variable of the platforms is one of the configuration', async (t) => {
  const known = new Set<string>([...Object.keys(VARIABLES), ...FILED.map((name) => `${name}_FILE`)]);
  const pods = [...ofKind('Deployment'), ...ofKind('Job')].flatMap((manifest) => podOf(manifest).containers);
  const named = {
    'compose.yaml': Object.values(composeProcesses()).flatMap(({ environment = {} }) => Object.keys(environment)),
    'deploy/kubernetes': [
      ...ofKind('ConfigMap').flatMap(({ data }) => Object.keys(data)),
      ...pods.flatMap(({ env = [] }) => env.map(({ name }: { name: string }) => name)),
      ...ofKind('TriggerAuthentication').flatMap(({ spec }) => spec.secretTargetRef.map(({ key }: Manifest) => key)),
    ],
    'deploy/systemd': unitSetting(read('deploy/systemd/examhall@.service'), 'Environment').map(
      (pair) => pair.split('=')[0],
    ),
    'app.json': Object.keys(JSON.parse(read('app.json')).env),
    Dockerfile: [...read('Dockerfile').matchAll(/^ENV (.*)$/gm)].flatMap(([, text = '']) =>
      text.split(' ').map((pair) => pair.split('=')[0]),
    ),
    'docs/deploying.md': [...read('docs/deploying.md').matchAll(/--from-literal=(\w+)=|^([A-Z][A-Z_]+)=/gm)].map(
      ([, literal, line]) => literal ?? line,
    ),
  };
  for (const [place, names] of Object.entries(named)) {
    t.ok(names.length > 0, place);
    for (const name of names) t.ok(known.has(name ?? ''), `${place}: ${name}`);
  }
});

t.test('KEDA reads members that a reply of /v1/ops/queues has, with the token of monitoring', async (t) => {
  const schema = (name: string) => JSON.parse(read(path.join('schemas/operations', `${name}.json`)));
  t.equal(schema('queue-list').properties.actors.items.$ref, 'actor-load');
  const { properties } = schema('actor-load');
  const [authentication] = ofKind('TriggerAuthentication');
  t.strictSame(authentication.spec.secretTargetRef, [{ parameter: 'token', name: 'examhall', key: 'OPS_READ_TOKEN' }]);
  const [service] = ofKind('Service');
  for (const { metadata, spec } of ofKind('ScaledObject')) {
    const { name } = metadata;
    t.equal(spec.scaleTargetRef.name, name);
    t.ok(spec.minReplicaCount >= 1 && spec.maxReplicaCount > spec.minReplicaCount, `${name}: one process stays`);
    if (name === 'web') continue;
    const [{ type, metadata: trigger, authenticationRef }] = spec.triggers;
    t.equal(type, 'metrics-api');
    const [, actor = '', member = ''] = /^data\.actors\.#\(actor=="(\w+)"\)\.(\w+)$/.exec(trigger.valueLocation) ?? [];
    t.equal(actor, name);
    t.match(properties[member], { type: 'integer' }, member);
    const url = new URL(trigger.url);
    t.strictSame([url.pathname, url.hostname.split('.')[0]], ['/v1/ops/queues', service.metadata.name]);
    t.equal(Number(url.port), service.spec.ports[0].port);
    t.ok(
      Number(trigger.targetValue) < Number(VARIABLES.WORKER_CONCURRENCY.default),
      'slots remain while a process starts',
    );
    t.strictSame([trigger.authMode, authenticationRef.name], ['bearer', authentication.metadata.name]);
  }
});

t.test('every platform waits longer than a process drains', async (t) => {
  const drain = Number(VARIABLES.SHUTDOWN_TIMEOUT_MS.default) / 1_000;
  t.ok(drain < DRAIN_SECONDS);
  for (const manifest of ofKind('Deployment')) {
    const { terminationGracePeriodSeconds: grace, containers } = podOf(manifest);
    const [, sleep = '0'] = containers[0].lifecycle?.preStop.exec.command ?? [];
    t.ok(grace - Number(sleep) >= DRAIN_SECONDS, manifest.metadata.name);
  }
  for (const [name, { stop_grace_period: grace = '' }] of Object.entries(composeProcesses()))
    t.ok(Number.parseInt(grace, 10) >= DRAIN_SECONDS, name);
  t.ok(Number(unitSetting(read('deploy/systemd/examhall@.service'), 'TimeoutStopSec')[0]) >= DRAIN_SECONDS);
});

t.test('every pod and container has no root, no writable image, no rights, and probes of its own port', async (t) => {
  for (const manifest of [...ofKind('Deployment'), ...ofKind('Job')]) {
    const pod = podOf(manifest);
    const [container] = pod.containers;
    const { name } = manifest.metadata;
    t.match(pod, {
      automountServiceAccountToken: false,
      securityContext: { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: 'RuntimeDefault' } },
    });
    t.match(container.securityContext, {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
    t.equal(container.image, `examhall:${JSON.parse(read('package.json')).version}`, name);
    if (name === 'release') continue;
    const [{ name: port, containerPort }] = container.ports;
    t.match(container.env, [{ name: name === 'web' ? 'PORT' : 'METRICS_PORT', value: String(containerPort) }]);
    const paths = { startupProbe: '/healthz', livenessProbe: '/healthz', readinessProbe: '/readyz' };
    for (const [probe, target] of Object.entries(paths))
      t.match(container[probe].httpGet, { path: target, port }, name);
  }
  for (const [name, service] of Object.entries(composeProcesses()))
    t.match(service, { read_only: true, cap_drop: ['ALL'] }, name);
});

t.test('the workers of Kubernetes differ by their name and their secrets alone', async (t) => {
  const text = (document: string) => {
    const [, ...lines] = document.trim().split('\n');
    return lines.filter((line) => !line.includes('{ key: ')).join('\n');
  };
  const documents = read('deploy/kubernetes/workers.yaml').split('---\n');
  const names = documents.map((document) => /^# (\w+): /.exec(document)?.[1] ?? '');
  t.strictSame([...names].sort(), WORKERS);
  const [first = ''] = names;
  for (const [index, name] of names.entries())
    t.equal(text(documents[index] ?? '').replaceAll(name, first), text(documents[0] ?? ''), name);
});

const ROOT = path.resolve(import.meta.dirname, '../../..');
const RUN = path.join(ROOT, 'deploy/run');

t.test('the image has the pinned Node, no root, and one entry point for every process type', async (t) => {
  const version = readFileSync(path.join(ROOT, '.nvmrc'), 'utf8').trim();
  const dockerfile = readFileSync(path.join(ROOT, 'Dockerfile'), 'utf8');
  t.match(dockerfile, `\nARG NODE_VERSION=${version}\n`);
  // biome-ignore lint/suspicious/noTemplateCurlyInString: the variables of a Dockerfile
  const base = 'node:${NODE_VERSION}-slim${NODE_DIGEST}';
  const [, build = '', last = '', ...others] = dockerfile.split(/^FROM /m);
  t.strictSame(others, []);
  for (const stage of [build, last]) {
    t.match(stage.split(/\s/, 1), [base], 'one digest pins the base of every stage');
    t.strictSame(stage.match(/^USER .*/gm), ['USER 1000:1000'], 'a number, so that a platform can verify it');
  }
  t.match(build, /^RUN npm ci --omit=dev /m);
  t.strictSame(last.match(/^(COPY|ADD|RUN) .*/gm), ['COPY --from=build --chown=0:0 /home/node/app /app']);
  t.match(last, /^ENV NODE_ENV=production METRICS_PORT=9464$/m);
  t.match(last, /^HEALTHCHECK .* CMD \["node", "deploy\/health\.mjs"\]$/m);
  t.match(last, /^ENTRYPOINT \["\/app\/deploy\/run"\]\nCMD \["web"\]$/m);
});

t.test('.dockerignore admits what runs, and no test, secret, document or installed package', async (t) => {
  const rules = readFileSync(path.join(ROOT, '.dockerignore'), 'utf8')
    .split('\n')
    .filter((line) => /^[^#]/.test(line));
  t.strictSame([rules.at(0), rules.at(-1)], ['*', '**/*.test.ts']);
  const admitted = rules.slice(1, -1).map((line) => line.replace(/^!/, ''));
  const folders = ['api', 'schemas', 'scripts/examhall', 'shared', 'workers'];
  t.strictSame(
    admitted.filter((name) => statSync(path.join(ROOT, name)).isDirectory()),
    folders,
  );
  const sources = globSync(
    admitted.map((name) => (name.endsWith('.ts') ? name : `${name}/**/*.ts`)),
    { cwd: ROOT },
  );
  t.ok(sources.length > 300);
  for (const file of sources.filter((name) => !name.endsWith('.test.ts'))) {
    const source = readFileSync(path.join(ROOT, file), 'utf8');
    for (const [, script = ''] of source.matchAll(/ from '#(scripts\/[^']+)'/g))
      t.ok(
        admitted.some((name) => script === name || script.startsWith(`${name}/`)),
        `${file} imports ${script}`,
      );
  }
});

/** Runs `deploy/run` with a `node` that prints its arguments, or what `script` prints. */
function arguments_(
  t: { teardown(work: () => void): void },
  args: readonly string[],
  { env: more = {}, script = 'printf "%s\\n" "$@"' }: { env?: NodeJS.ProcessEnv; script?: string } = {},
) {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'examhall-run-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(path.join(folder, 'bin'));
  writeFileSync(path.join(folder, 'bin/node'), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  symlinkSync(RUN, path.join(folder, 'run'));
  const env = { ...more, PATH: `${folder}/bin:/usr/bin:/bin` };
  const { status, stdout, stderr } = spawnSync('sh', [path.join(folder, 'run'), ...args], { env, encoding: 'utf8' });
  return { status, words: stdout.trim().split('\n'), stderr };
}

t.test('deploy/run starts the command of the Procfile with the permissions of Node', async (t) => {
  const { words } = arguments_(t, ['grading']);
  t.ok(words.includes('--permission'));
  t.strictSame(words.slice(-4), ['--import', './compile-cache.mjs', 'workers/main.ts', 'grading']);
  t.strictSame(arguments_(t, ['grading-2']).words, words, 'a number distinguishes processes of one machine');
  t.strictSame(arguments_(t, ['node', ...words.slice(-4)]).words, words, 'platforms pass the command itself');
  t.equal(arguments_(t, []).words.at(-1), 'api/main.ts');
  t.strictSame(
    words.filter((word) => word.startsWith('--allow-fs-write=')),
    [`--allow-fs-write=${ROOT}/node_modules/.cache/compiled`],
  );
  for (const word of words) t.notMatch(word, /^--allow-(child-process|inspector|wasi)|=\*$|=\/(proc\/self\/?)?$/);
});

t.test('deploy/run permits threads to workers alone', async (t) => {
  const threads = (...args: string[]) => arguments_(t, args).words.includes('--allow-worker');
  t.ok(threads('grading'));
  t.ok(threads('node', 'workers/main.ts', 'upkeep'));
  for (const args of [['web'], ['release'], ['examhall', 'status'], ['node', 'api/main.ts']])
    t.notOk(threads(...args), args.join(' '));
});

t.test('deploy/run passes a port on, and no empty one, which Dokku sets for workers', async (t) => {
  for (const name of ['PORT', 'METRICS_PORT']) {
    const portOf = (env: NodeJS.ProcessEnv) =>
      arguments_(t, ['grading'], { env, script: `printenv ${name} || echo none` }).words;
    t.strictSame(portOf({}), ['none'], name);
    t.strictSame(portOf({ [name]: '' }), ['none'], name);
    t.strictSame(portOf({ [name]: '3001' }), ['3001'], name);
  }
});

t.test('deploy/run lets Node read the folder of credentials that the platform has mounted', async (t) => {
  const readable = (env: NodeJS.ProcessEnv) =>
    arguments_(t, ['grading'], { env }).words.filter((word) => word.startsWith('--allow-fs-read=/run/'));
  t.strictSame(readable({}), ['--allow-fs-read=/run/secrets/*']);
  t.strictSame(readable({ CREDENTIALS_DIRECTORY: '/run/credentials/examhall@web.service' }), [
    '--allow-fs-read=/run/secrets/*',
    '--allow-fs-read=/run/credentials/examhall@web.service/*',
  ]);
});

t.test('deploy/run runs the tool of the operator, which may use files below /work', async (t) => {
  const { words } = arguments_(t, ['examhall', 'person', 'export', 'two words']);
  t.strictSame(words.slice(-4), ['scripts/examhall/examhall.ts', 'person', 'export', 'two words']);
  t.ok(words.includes('--allow-fs-write=/work/*'));
});

t.test('deploy/run refuses an unknown process type and lists the known ones', async (t) => {
  for (const type of ['grade', 'web!', '.*', 'web/../x', '-c']) {
    const { status, stderr, words } = arguments_(t, [type]);
    t.equal(status, 2, type);
    t.match(stderr, /^error: ".*" is no process type; expected one of: release web grading /);
    t.strictSame(words, ['']);
  }
});

t.test('the shell scripts of the image are valid for a POSIX shell', async (t) => {
  for (const name of ['run', 'prune']) execFileSync('sh', ['-n', path.join(ROOT, 'deploy', name)]);
  t.end();
});
