import { execFileSync } from 'node:child_process';
import { existsSync, globSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';
import { toolsCache } from '#scripts/services/cache.ts';
import { withInstallLock } from '#scripts/services/install-lock.ts';
import { onPath } from '#scripts/services/on-path.ts';

/** A Chromium that this machine can run. */
export interface Chromium {
  file: string;
  /** Environment that finds its libraries. */
  env: NodeJS.ProcessEnv;
}

/** Time limit of the download of Debian's packages, about 110 MB (ms). */
const DOWNLOAD_MS = 300_000;
const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

/**
 * Returns Chromium from PATH, otherwise that of Debian, which apt downloads and checks together with the libraries that this machine lacks,
 * and which is only unpacked. Returns the reason if the machine has neither.
 */
export async function findChromium(env = process.env): Promise<Chromium | { file: null; missing: string }> {
  const found = onPath(NAMES, env.PATH);
  if (found !== undefined) return { file: found, env };
  const cache = toolsCache(env);
  const folder = path.join(cache, 'chromium');
  if (onPath(['apt-get'], env.PATH) === undefined || onPath(['dpkg-deb'], env.PATH) === undefined)
    return { file: null, missing: 'no chromium on PATH, and no apt-get that could download it' };
  try {
    await withInstallLock(path.join(cache, 'chromium.lock'), async () => {
      if (!existsSync(folder)) unpackTo(cache, folder);
    });
    return unpacked(folder, env);
  } catch (error) {
    return { file: null, missing: `no chromium on PATH, and \`apt-get download chromium\` failed: ${String(error)}` };
  }
}

/** Debian's wrapper script would read its settings below /etc, so the program is started itself. */
function unpacked(folder: string, env: NodeJS.ProcessEnv): Chromium {
  const libraries = globSync('{usr/,}lib/*-linux-gnu/{,*/}lib*.so*', { cwd: folder });
  const folders = new Set(libraries.map((name) => path.dirname(path.join(folder, name))));
  const searched = [...folders, env.LD_LIBRARY_PATH ?? ''];
  return {
    file: path.join(folder, 'usr/lib/chromium/chromium'),
    env: { ...env, LD_LIBRARY_PATH: searched.filter((one) => one !== '').join(':') },
  };
}

function unpackTo(cache: string, folder: string): void {
  const partial = mkdtempSync(path.join(cache, 'chromium-download-'));
  try {
    const plan = execFileSync('apt-get', ['install', '-s', '--no-install-recommends', 'chromium'], {
      encoding: 'utf8',
    });
    const names = [...plan.matchAll(/^Inst (\S+)/gm)].map(([, name = '']) => name);
    if (names.length === 0) throw new Error('apt knows no package named chromium');
    execFileSync('apt-get', ['download', ...names], { cwd: partial, stdio: 'pipe', timeout: DOWNLOAD_MS });
    mkdirSync(path.join(partial, 'files'));
    for (const deb of globSync('*.deb', { cwd: partial }))
      execFileSync('dpkg-deb', ['-x', deb, 'files'], { cwd: partial, stdio: 'pipe' });
    renameSync(path.join(partial, 'files'), folder);
  } finally {
    rmSync(partial, { recursive: true, force: true });
  }
}
