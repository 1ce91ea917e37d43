const PREFIX = 'whsec_';

/** Minimum size of a key by the convention, in bytes. Only production requires it. */
const MIN_KEY_BYTES = 24;
/** Fewest different bytes of a key in production. A key of 24 random bytes has more. */
const MIN_DIFFERENT_BYTES = 10;

/**
 * Returns a description of the wanted secret, or undefined if this one is valid: `whsec_` and the padded base64 of a key. The
 * description never quotes the secret.
 */
export function webhookSecretFault(secret: string, production: boolean): string | undefined {
  const key = keyOf(secret);
  // Node reads base64 leniently, but other verifiers are strict. Accept only the canonical text of a key.
  const isCanonical = key.length > 0 && secret === `${PREFIX}${key.toString('base64')}`;
  const isRandom = key.length >= MIN_KEY_BYTES && new Set(key).size >= MIN_DIFFERENT_BYTES;
  if (isCanonical && (!production || isRandom)) return undefined;
  const size = production ? `at least ${MIN_KEY_BYTES} random bytes` : 'a key';
  return `${PREFIX} and the base64 of ${size}, as of: echo ${PREFIX}$(openssl rand -base64 32)`;
}

function keyOf(secret: string): Buffer {
  return Buffer.from(secret.slice(PREFIX.length), 'base64');
}
