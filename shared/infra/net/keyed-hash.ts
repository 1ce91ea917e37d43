import { createHmac, createSecretKey, hkdfSync } from 'node:crypto';

/**
 * Returns a keyed hash, by which two occurrences of one value can be compared. A person is an `actor` in request lines, and a `person` in
 * audit and tombstones. Without the key the value cannot be found by trial, although there are few addresses, and ids that schools assign
 * are guessed easily.
 */
export type KeyedHash = (kind: 'address' | 'account' | 'actor' | 'person', text: string) => string;

const KEY_BYTES = 32;
/** 96 bits, so that equal hashes mean equal values. */
const HASH_BYTES = 12;

/**
 * Opens the hash with a key derived from a secret. After a change of the secret, the same value has another hash. Events store addresses
 * under AUTH_JWT_SECRET, which the database does not contain.
 */
export function openKeyedHash(secret: string): KeyedHash {
  // A key in bytes would be prepared again for each hash, which takes several times as long.
  const key = createSecretKey(Buffer.from(hkdfSync('sha256', secret, '', 'examhall evidence hash', KEY_BYTES)));
  return (kind, text) =>
    createHmac('sha256', key).update(`${kind}:${text}`).digest().subarray(0, HASH_BYTES).toString('base64url');
}
