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
