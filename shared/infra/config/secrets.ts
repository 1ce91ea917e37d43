import { readFileSync } from 'node:fs';
import { type Variable, WELL_KNOWN } from './variable.ts';
import { VARIABLES } from './variables.ts';

/** Kinds of variables whose value may be in a file. Platforms mount secrets as files, which child processes do not inherit. */
const KINDS: ReadonlySet<Variable['kind']> = new Set(['token', 'tokens', 'key', 'secret', 'secrets', 'webhook-secret']);

/** The variables of tokens, keys and secrets: each NAME may be replaced by NAME_FILE. */
export const FILED: readonly string[] = Object.entries(VARIABLES).flatMap(([name, { kind }]) =>
  KINDS.has(kind) ? [name] : [],
);

/**
 * Returns the environment with the content of each file that a NAME_FILE names as the value of NAME, without its final line break.
 * A fault is one sentence; it shows neither the path, which may be a secret set by mistake, nor the content.
 */
export function withSecretFiles(given: NodeJS.ProcessEnv): { env: NodeJS.ProcessEnv; faults: string[] } {
  const env = { ...given };
  const faults: string[] = [];
  for (const name of FILED) {
    const file = given[`${name}_FILE`];
    if (file === undefined) continue;
    if (given[name] !== undefined) faults.push(`${name}_FILE: set beside ${name}, wanted one of the two`);
    else if (file === '') faults.push(`${name}_FILE: empty, wanted the path of a readable file`);
    else env[name] = contentOf(file, (why) => faults.push(`${name}_FILE: not readable (${why}), wanted a file`));
  }
  return { env, faults };
}

function contentOf(file: string, refuse: (why: string) => void): string | undefined {
  try {
    return readFileSync(file, 'utf8').replace(/\r?\n$/, '');
  } catch (error) {
    refuse(error instanceof Error && 'code' in error ? String(error.code) : 'unknown error');
    return undefined;
  }
}

/** As many characters as 18 random bytes have in base64. */
const MIN_TOKEN_CHARACTERS = 24;

/** Returns a description of the wanted key, or undefined if the key is valid. */
export function keyFault(key: string, production: boolean): string | undefined {
  // HTTP trims header values, so a key with white space at its end (a line break) would never match.
  if (!/^[!-~]([ -~]*[!-~])?$/.test(key)) return 'printable ASCII without white space at either end';
  return production && WELL_KNOWN.has(key) ? 'a value of its own, not the development default' : undefined;
}

/** Returns a description of the wanted token, or undefined if the token is valid. */
export function tokenFault(token: string, production: boolean): string | undefined {
  const fault = keyFault(token, production);
  if (fault !== undefined || !production) return fault;
  return token.length < MIN_TOKEN_CHARACTERS ? `at least ${MIN_TOKEN_CHARACTERS} characters` : patternIn(token);
}

/** Fewest different characters of a secret. A random one has more. */
const MIN_DIFFERENT = 10;

/**
 * Texts that stand for a secret in examples: some words at any place, and texts of nothing but
 * other words and digits.
 */
const PLACEHOLDER =
  /change[-_. ]?me|replace[-_. ]?me|placeholder|example|^(?=.*[a-z])(?:secret|token|password|key|my|your|default|[^a-z])+$/i;

/**
 * Returns a description of the wanted secret if this one is a pattern or a placeholder, which can
 * be guessed at any length.
 */
function patternIn(secret: string): string | undefined {
  if (new Set(secret).size < MIN_DIFFERENT) return `at least ${MIN_DIFFERENT} different characters`;
  return PLACEHOLDER.test(secret) ? 'a random value, not a placeholder' : undefined;
}

/** HS256 requires a key as long as its hash (RFC 7518, 3.2), and a derived key is no stronger than its secret. */
const MIN_SECRET_BYTES = 32;

/** Returns a description of the wanted secret, or undefined if the secret is valid. Never quotes the secret. */
export function secretFault(secret: string, production: boolean): string | undefined {
  // A comma is refused because this secret will later be in the comma-separated list of earlier secrets.
  if (!/^[!-~]([ -~]*[!-~])?$/.test(secret) || secret.includes(',')) {
    const wanted = 'printable ASCII without a comma and without white space at either end';
    return production ? `at least ${MIN_SECRET_BYTES} bytes of ${wanted}` : wanted;
  }
  if (!production) return undefined;
  if (WELL_KNOWN.has(secret)) return 'a value of its own, not the development default';
  return Buffer.byteLength(secret) < MIN_SECRET_BYTES ? `at least ${MIN_SECRET_BYTES} bytes` : patternIn(secret);
}
