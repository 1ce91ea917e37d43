import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

/**
 * `npm run sbom`: prints the software bill of materials of a production installation, in CycloneDX form, as npm writes it.
 */

/** The parts of package.json and package-lock.json that decide what production installs. */
interface Manifest {
  devDependencies?: unknown;
}
interface Lock {
  readonly packages: Record<string, Manifest & { readonly version?: string; readonly dev?: boolean }>;
}
interface Component {
  readonly name: string;
  readonly version: string;
  readonly hashes?: readonly unknown[];
}

const ROOT = path.resolve(import.meta.dirname, '..');

/**
 * Returns the document. npm reads a copy of the lock without development packages: `npm sbom --omit dev` leaves out a package that
 * a development package needs too, such as `mongodb`.
 * @throws Error if npm fails, or leaves out a package or its checksum
 */
export function billOfMaterials(): string {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'examhall-sbom-'));
  try {
    // npm names the document after its folder.
    const project = path.join(folder, 'examhall');
    mkdirSync(project);
    const manifest: Manifest = readJson('package.json');
    delete manifest.devDependencies;
    const lock: Lock = readJson('package-lock.json');
    for (const [where, entry] of Object.entries(lock.packages)) {
      if (entry.dev === true) delete lock.packages[where];
      if (where === '') delete entry.devDependencies;
    }
    writeFileSync(path.join(project, 'package.json'), JSON.stringify(manifest));
    writeFileSync(path.join(project, 'package-lock.json'), JSON.stringify(lock));
    const text = npm(project, ['sbom', '--sbom-format=cyclonedx', '--package-lock-only', '--loglevel=error']);
    const { components }: { components: readonly Component[] } = JSON.parse(text);
    const listed = new Set(components.filter(({ hashes = [] }) => hashes.length > 0).map(idOf));
    const missing = Object.entries(lock.packages)
      .filter(([where]) => where !== '')
      .map(([where, { version = '' }]) => idOf({ name: where.split('node_modules/').at(-1) ?? '', version }))
      .filter((id) => !listed.has(id));
    if (missing.length > 0) throw new Error(`npm sbom leaves out these packages or checksums: ${missing.join(', ')}`);
    return text;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function idOf({ name, version }: Component): string {
  return `${name}@${version}`;
}

function readJson<T>(file: string): T {
  return JSON.parse(readFileSync(path.join(ROOT, file), 'utf8')) as T;
}

function npm(cwd: string, args: readonly string[]): string {
  const file = process.env.npm_execpath ?? '';
  const [command, first] = /npm-cli\.c?js$/.test(file) ? [process.execPath, [file]] : ['npm', []];
  const { status, stdout, stderr, error } = spawnSync(command, [...first, ...args], {
    cwd,
    encoding: 'utf8',
    maxBuffer: 2 ** 26,
  });
  if (status !== 0) throw new Error(`npm ${args[0]} failed: ${error?.message ?? stderr.trim()}`);
  return stdout;
}

if (import.meta.main) process.stdout.write(billOfMaterials());
