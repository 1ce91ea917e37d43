declare module 'http_ece' {
  import type { ECDH } from 'node:crypto';

  /** Decrypts a body of a content coding of RFC 8188. @throws Error if it was encrypted for another key */
  export function decrypt(body: Buffer, params: { version: 'aes128gcm'; privateKey: ECDH; authSecret: string }): Buffer;
}
