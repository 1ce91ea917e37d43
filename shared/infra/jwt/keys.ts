import { createSecretKey, hash, hkdfSync, type KeyObject } from 'node:crypto';

/** Which kind of token a key makes; no key makes or reads the other kind. */
export type Purpose = 'access' | 'refresh';

/** `typ` of the header (RFC 9068 names the first): the kinds are told apart before anything is believed. */
const TYPES: Readonly<Record<Purpose, string>> = { access: 'at+jwt', refresh: 'rt+jwt' };
const KEY_BYTES = 32;
const KID_LETTERS = 16;

/** A key and the header of every token that is made with it. */
export interface TokenKey {
  key: KeyObject;
  header: { alg: 'HS256'; typ: string; kid: string };
  /** The header as it stands in a token. */
  segment: string;
}

/** The key of one purpose, derived from a secret that serves several; its `kid` tells nothing of either. */
export function deriveKey(secret: string, purpose: Purpose): TokenKey {
  if (secret === '') throw new Error('Tokens cannot be signed with an empty secret');
  const bytes = Buffer.from(hkdfSync('sha256', secret, '', `examhall ${purpose} token`, KEY_BYTES));
  const kid = hash('sha256', bytes, 'base64url').slice(0, KID_LETTERS);
  const header = { alg: 'HS256', typ: TYPES[purpose], kid } as const;
  return { key: createSecretKey(bytes), header, segment: Buffer.from(JSON.stringify(header)).toString('base64url') };
}
