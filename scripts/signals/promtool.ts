import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, globSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';
import { toolsCache } from '#scripts/services/cache.ts';
import { withInstallLock } from '#scripts/services/install-lock.ts';
import { onPath } from '#scripts/services/on-path.ts';

/** Time limit of the download of Debian's package, about 20 MB (ms). */
const DOWNLOAD_MS = 120_000;

/**
 * Returns `promtool` from PATH, otherwise that of the `prometheus` package of Debian or Ubuntu, which apt downloads and checks and which
 * is only unpacked. Returns the reason if the machine has neither.
 */
export async function findPromtool(env = process.env): Promise<{ file: string } | { file: null; missing: string }> {
  const found = onPath(['promtool'], env.PATH);
  if (found !== undefined) return { file: found };
  const cache = toolsCache(env);
  const file = path.join(cache, 'prometheus', 'promtool');
  if (existsSync(file)) return { file };
  if (onPath(['apt-get'], env.PATH) === undefined || onPath(['dpkg-deb'], env.PATH) === undefined)
    return { file: null, missing: 'no promtool on PATH, and no apt-get that could download it' };
  try {
    await withInstallLock(path.join(cache, 'prometheus.lock'), async () => {
      if (!existsSync(file)) unpackTo(cache, file);
    });
    return { file };
  } catch (error) {
    return { file: null, missing: `no promtool on PATH, and \`apt-get download prometheus\` failed: ${String(error)}` };
  }
}

function unpackTo(cache: string, file: string): void {
  const folder = mkdtempSync(path.join(cache, 'prometheus-download-'));
  try {
    execFileSync('apt-get', ['download', 'prometheus'], { cwd: folder, stdio: 'pipe', timeout: DOWNLOAD_MS });
    const [deb = ''] = globSync('prometheus_*.deb', { cwd: folder });
    execFileSync('dpkg-deb', ['-x', deb, 'files'], { cwd: folder, stdio: 'pipe' });
    mkdirSync(path.dirname(file), { recursive: true });
    const partial = `${file}.partial`;
    cpSync(path.join(folder, 'files/usr/bin/promtool'), partial);
    renameSync(partial, file);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
