import { WELL_KNOWN } from './variable.ts';

// Rules of single secrets. None of these functions quotes a secret.

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

/** Returns a description of the wanted secret, or undefined if the secret is valid. */
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
