import { execFileSync } from 'node:child_process';
import { existsSync, globSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';
import { onPath, toolsCache } from '#scripts/start/services/tools.ts';
import { withLock } from '#scripts/start/supervisor/processes.ts';

/**
 * Returns the tool that `find` finds, or the reason why this machine has none, for a test that is skipped then.
 * @throws Error with the reason if the variable of the environment is `required`, as in CI
 */
export async function optionalTool<T>(
  variable: string,
  find: () => Promise<T>,
): Promise<{ tool: T } | { missing: string }> {
  try {
    return { tool: await find() };
  } catch (error) {
    if (process.env[variable] === 'required') throw error;
    const [reason = ''] = (error instanceof Error ? error.message : String(error)).trim().split('\n');
    return { missing: reason };
  }
}

/** Time limit of a download (ms). */
const DOWNLOAD_MS = 300_000;

/**
 * Returns the folder of a package of Debian or Ubuntu, which apt downloads and checks on first use and which is only unpacked. With
 * `libraries`, the packages that it requires and that this machine lacks are unpacked as well.
 * @throws Error with the reason if the machine cannot have the package
 */
export async function unpackedPackage(name: string, libraries: boolean, env = process.env): Promise<string> {
  const folder = path.join(toolsCache(env), name);
  if (onPath(['apt-get'], env.PATH) === undefined || onPath(['dpkg-deb'], env.PATH) === undefined)
    throw new Error(`no ${name} on PATH, and no apt-get that could download it`);
  await withLock(`${folder}.lock`, async () => {
    if (existsSync(path.join(folder, 'usr'))) return;
    try {
      unpackTo(folder, libraries ? requiredBy(name) : [name]);
    } catch (error) {
      throw new Error(`no ${name} on PATH, and \`apt-get download ${name}\` failed: ${String(error)}`);
    }
  });
  return folder;
}

function requiredBy(name: string): string[] {
  const plan = execFileSync('apt-get', ['install', '-s', '--no-install-recommends', name], { encoding: 'utf8' });
  const names = [...plan.matchAll(/^Inst (\S+)/gm)].map(([, found = '']) => found);
  if (names.length === 0) throw new Error(`apt knows no package named ${name}`);
  return names;
}

function unpackTo(folder: string, names: readonly string[]): void {
  const partial = mkdtempSync(`${folder}-download-`);
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
