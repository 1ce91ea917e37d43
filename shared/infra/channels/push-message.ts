import { createECDH, type ECDH, randomBytes } from 'node:crypto';
import { encrypt } from 'http_ece';
import jwt from 'jsonwebtoken';
import { HOUR } from '#shared/kernel/time.ts';
import { CURVE, type VapidKeys } from './keys.ts';

// A push message is encrypted for its browser (RFC 8291) and signed for its push service (VAPID, RFC 8292).

const SALT_BYTES = 16;
/** Size of the only record. A push service takes no longer body. */
const RECORD_BYTES = 4_096;

/** The keys of a browser, base64url. */
interface BrowserKeys {
  p256dh: string;
  auth: string;
}

/** The random parts of a message. A test passes those of the example in RFC 8291. */
interface Fresh {
  salt: Buffer;
  sender: ECDH;
}

function freshParts(): Fresh {
  const sender = createECDH(CURVE);
  sender.generateKeys();
  return { salt: randomBytes(SALT_BYTES), sender };
}

/**
 * Returns a body that only this browser can read (RFC 8291, in the coding `aes128gcm` of RFC 8188). The text must fit into one record.
 *
 * @throws Error if the browser's key is not on the curve
 */
export function encryptPush(text: string, { p256dh, auth }: BrowserKeys, { salt, sender } = freshParts()): Buffer {
  const keys = { privateKey: sender, dh: p256dh, authSecret: auth };
  return encrypt(Buffer.from(text), { version: 'aes128gcm', ...keys, salt, rs: RECORD_BYTES });
}

/** Validity of a signature. Push services refuse more than 24 hours. */
const SIGNED_FOR_MS = 12 * HOUR;

/** Returns the `Authorization` of a call to a push service. `subject` is how its operator reaches the school. */
export function vapidHeader(
  { publicKey, privateKey }: VapidKeys,
  { endpoint, subject, now }: { endpoint: string; subject: string; now: number },
): string {
  const claims = { aud: new URL(endpoint).origin, exp: Math.floor((now + SIGNED_FOR_MS) / 1_000), sub: subject };
  return `vapid t=${jwt.sign(claims, privateKey, { algorithm: 'ES256', noTimestamp: true })}, k=${publicKey}`;
}
