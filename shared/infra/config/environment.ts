import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { isReadBy, type ReadingProcess } from './readers.ts';
import type { Variable } from './variable.ts';
import { VARIABLES, type VariableName } from './variables.ts';

// The part of an environment that a process may read, with the content of its secret files.

/**
 * Kinds of variables whose value may be in a file. Platforms mount secrets as files, which child
 * processes do not inherit.
 */
const SECRET_KINDS: ReadonlySet<Variable['kind']> = new Set([
  'token',
  'tokens',
  'key',
  'secret',
  'secrets',
  'webhook-secret',
  'mongodb',
  'redis',
]);

/**
 * The variables of tokens, keys, secrets and connection strings: each NAME may be replaced by
 * NAME_FILE.
 */
export const FILED: readonly VariableName[] = (Object.keys(VARIABLES) as VariableName[]).filter((name) =>
  SECRET_KINDS.has(VARIABLES[name].kind),
);

/** Returns true if the process reads the variable. */
export function reads(process: ReadingProcess, name: VariableName): boolean {
  const { readers }: Variable = VARIABLES[name];
  return isReadBy(readers, process);
}

/**
 * Returns the environment without the secrets and addresses that the process does not read.
 * `foreign` names the sources of such a secret: NAME, NAME_FILE, or a file of the folder
 * CREDENTIALS_DIRECTORY, which is not opened.
 */
export function ownEnvironment(
  given: NodeJS.ProcessEnv,
  process: ReadingProcess,
): { env: NodeJS.ProcessEnv; foreign: string[] } {
  const env = { ...given };
  const foreign: string[] = [];
  for (const name of Object.keys(VARIABLES) as VariableName[]) {
    if (reads(process, name)) continue;
    const sources = [name, `${name}_FILE`].filter((source) => (given[source] ?? '') !== '');
    delete env[name];
    delete env[`${name}_FILE`];
    if (!SECRET_KINDS.has(VARIABLES[name].kind)) continue;
    foreign.push(...sources);
    const file = mountedFile(given, name);
    if (file !== undefined && existsSync(file)) foreign.push(`${name} in CREDENTIALS_DIRECTORY`);
  }
  return { env, foreign };
}

/**
 * Returns the environment with the content of the secret file of each name as the value of NAME,
 * without its final line break. The file is the one that NAME_FILE names, otherwise the file NAME
 * in CREDENTIALS_DIRECTORY, if there is one. A fault is one sentence; it shows neither the path,
 * which may be a secret set by mistake, nor the content.
 */
export function withSecretFiles(
  given: NodeJS.ProcessEnv,
  names: readonly VariableName[],
): { env: NodeJS.ProcessEnv; faults: string[] } {
  const env = { ...given };
  const faults: string[] = [];
  for (const name of names) {
    const named = given[`${name}_FILE`];
    const file = named ?? mountedFile(given, name);
    if (file === undefined) continue;
    const source = named === undefined ? `${name} in CREDENTIALS_DIRECTORY` : `${name}_FILE`;
    delete env[`${name}_FILE`];
    if (file === '') {
      faults.push(`${source}: empty, wanted the path of a readable file`);
      continue;
    }
    const content = contentOf(file);
    if ('code' in content && content.code === 'ENOENT' && named === undefined) continue;
    if (given[name] !== undefined) faults.push(`${source}: set beside ${name}, wanted one of the two`);
    else if ('code' in content) faults.push(`${source}: not readable (${content.code}), wanted a file`);
    else env[name] = content.text;
  }
  return { env, faults };
}

function mountedFile({ CREDENTIALS_DIRECTORY: folder = '' }: NodeJS.ProcessEnv, name: string): string | undefined {
  return folder === '' ? undefined : path.join(folder, name);
}

function contentOf(file: string): { text: string } | { code: string } {
  try {
    return { text: readFileSync(file, 'utf8').replace(/\r?\n$/, '') };
  } catch (error) {
    return { code: error instanceof Error && 'code' in error ? String(error.code) : 'unknown error' };
  }
}
