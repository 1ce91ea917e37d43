import { execFileSync } from 'node:child_process';
import { existsSync, globSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';
import { toolsCache } from './cache.ts';
import { withInstallLock } from './install-lock.ts';
import { onPath } from './on-path.ts';

/** Time limit of a download (ms). */
const DOWNLOAD_MS = 300_000;

/** The folder of unpacked packages, or the reason why the machine has none. */
export type Unpacked = { readonly folder: string } | { readonly folder: null; readonly missing: string };

/**
 * Returns the folder of a package of Debian or Ubuntu, which apt downloads and checks on first use and which is only unpacked. With
 * `libraries`, the packages that it requires and that this machine lacks are unpacked as well.
 */
export async function unpackedPackage(name: string, libraries: boolean, env = process.env): Promise<Unpacked> {
  const cache = toolsCache(env);
  const folder = path.join(cache, name);
  if (onPath(['apt-get'], env.PATH) === undefined || onPath(['dpkg-deb'], env.PATH) === undefined)
    return { folder: null, missing: `no ${name} on PATH, and no apt-get that could download it` };
  try {
    await withInstallLock(path.join(cache, `${name}.lock`), async () => {
      if (!existsSync(path.join(folder, 'usr'))) unpackTo(cache, folder, libraries ? requiredBy(name) : [name]);
    });
    return { folder };
  } catch (error) {
    return { folder: null, missing: `no ${name} on PATH, and \`apt-get download ${name}\` failed: ${String(error)}` };
  }
}

function requiredBy(name: string): string[] {
  const plan = execFileSync('apt-get', ['install', '-s', '--no-install-recommends', name], { encoding: 'utf8' });
  const names = [...plan.matchAll(/^Inst (\S+)/gm)].map(([, found = '']) => found);
  if (names.length === 0) throw new Error(`apt knows no package named ${name}`);
  return names;
}

function unpackTo(cache: string, folder: string, names: readonly string[]): void {
  const partial = mkdtempSync(path.join(cache, 'debian-download-'));
  try {
    execFileSync('apt-get', ['download', ...names], { cwd: partial, stdio: 'pipe', timeout: DOWNLOAD_MS });
    mkdirSync(path.join(partial, 'files'));
    for (const deb of globSync('*.deb', { cwd: partial }))
      execFileSync('dpkg-deb', ['-x', deb, 'files'], { cwd: partial, stdio: 'pipe' });
    rmSync(folder, { recursive: true, force: true });
    renameSync(path.join(partial, 'files'), folder);
  } finally {
    rmSync(partial, { recursive: true, force: true });
  }
}
