declare module 'http_ece' {
  import type { ECDH } from 'node:crypto';

  interface Keys {
    version: 'aes128gcm';
    /** Key of the sender to encrypt, and of the receiver to decrypt. */
    privateKey: ECDH;
    authSecret: string;
  }

  /** Encrypts for the receiver with the public key `dh` (RFC 8188, RFC 8291). @throws Error if that is not on the curve */
  export function encrypt(body: Buffer, params: Keys & { dh: string; salt: Buffer; rs: number }): Buffer;
  /** Decrypts a body of a content coding of RFC 8188. @throws Error if it was encrypted for another key */
  export function decrypt(body: Buffer, params: Keys): Buffer;
}
