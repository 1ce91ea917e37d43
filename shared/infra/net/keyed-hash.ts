import { createHmac, hkdfSync } from 'node:crypto';

/**
 * Returns a keyed hash of an address or of the key of an account, by which two events can be compared. Without the key the value cannot
 * be found by trial, although there are few addresses.
 */
export type KeyedHash = (kind: 'address' | 'account', text: string) => string;

const KEY_BYTES = 32;
/** 96 bits, so that equal hashes mean equal values. */
const HASH_BYTES = 12;

/**
 * Opens the hash with a key derived from AUTH_JWT_SECRET. After a change of the secret, the same address has another hash, so that
 * events from before and after the change cannot be compared.
 */
export function openKeyedHash(secret: string): KeyedHash {
  const key = Buffer.from(hkdfSync('sha256', secret, '', 'examhall evidence hash', KEY_BYTES));
  return (kind, text) =>
    createHmac('sha256', key).update(`${kind}:${text}`).digest().subarray(0, HASH_BYTES).toString('base64url');
}
