import { createECDH, createPrivateKey, type KeyObject } from 'node:crypto';

/** Curve of all keys of Web Push. */
export const CURVE = 'prime256v1';

/** A key pair by which push services recognize this server (VAPID). */
export interface VapidKeys {
  /** As pages pass it to `pushManager.subscribe`, base64url. */
  publicKey: string;
  privateKey: KeyObject;
}

/** Returns the key pair of a private key: 32 bytes, base64url. Returns null if the text is no such key. */
export function vapidKeys(text: string): VapidKeys | null {
  if (!/^[A-Za-z0-9_-]{43}$/.test(text)) return null;
  try {
    const pair = createECDH(CURVE);
    pair.setPrivateKey(Buffer.from(text, 'base64url'));
    const point = pair.getPublicKey();
    const [x, y] = [point.subarray(1, 33), point.subarray(33)].map((half) => half.toString('base64url'));
    const key = { kty: 'EC', crv: 'P-256', x: x ?? '', y: y ?? '', d: text };
    return { publicKey: point.toString('base64url'), privateKey: createPrivateKey({ key, format: 'jwk' }) };
  } catch {
    return null;
  }
}

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
