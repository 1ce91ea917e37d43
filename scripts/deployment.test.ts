import { readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { parseProcfile } from '#scripts/supervisor/procfile.ts';

const ROOT = path.resolve(import.meta.dirname, '..');

interface LockedPackage {
  readonly version?: string;
  readonly resolved?: string;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
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

t.test('package.json pins exact versions, and .nvmrc names the same Node', async (t) => {
  const { dependencies, devDependencies } =
    readJson<Record<'dependencies' | 'devDependencies', Record<string, string>>>('package.json');
  for (const [name, version] of Object.entries({ ...dependencies, ...devDependencies })) {
    t.match(version, /^\d+\.\d+\.\d+$/, name);
  }
  const node = dependencies.node ?? '';
  t.equal(readFileSync(path.join(ROOT, '.nvmrc'), 'utf8').trim(), node);
});

t.test('app.json lists every process type of the Procfile', async (t) => {
  const { formation } = readJson<{ formation: Record<string, { quantity: number }> }>('app.json');
  const types = parseProcfile(readFileSync(path.join(ROOT, 'Procfile'), 'utf8')).map(({ name }) => name);
  t.strictSame(Object.keys(formation).sort(), types.filter((name) => name !== 'release').sort());
  t.ok(types.includes('release'));
});
