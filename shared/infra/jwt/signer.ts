import { createSecretKey, hash, hkdfSync, type KeyObject } from 'node:crypto';
import jwt from 'jsonwebtoken';
import { ROLES } from '#shared/auth/account.ts';
import type { AccessClaims, RefreshClaims, TokenTimes } from '#shared/auth/session.ts';
import { type Now, SECOND } from '#shared/kernel/time.ts';

export interface Signer {
  /** A token issued at `at` (Unix ms; default now): give it where a record must name the same times. Milliseconds are cut off. */
  access(claims: AccessClaims, at?: number): string;
  refresh(claims: RefreshClaims, at?: number): string;
  /** What a token of ours says while it is valid; null for anything else, without a reason. */
  readAccess(text: string): (AccessClaims & TokenTimes) | null;
  readRefresh(text: string): (RefreshClaims & TokenTimes) | null;
}

export interface SignerOptions {
  secret: string;
  /** Tokens of these still count, so that a secret can be changed while people are signed in. */
  previousSecrets: readonly string[];
  issuer: string;
  accessSeconds: number;
  refreshSeconds: number;
  now: Now;
}

/** Members of each kind, by type; a token that lacks one is not ours. */
const ACCESS_TEXTS = ['sub', 'type', 'role', 'accountCode', 'fullName', 'email', 'defaultOrganizationId', 'sid', 'jti'];
const REFRESH_TEXTS = ['sub', 'type', 'jti', 'sid'];

/**
 * Makes and reads tokens, HS256 only. A header is never interpreted: it must be, letter by letter, the header that goes with one of
 * our keys of this purpose, so no token chooses its algorithm, its key or where to fetch one, nor adds `crit`.
 */
export function openSigner(options: SignerOptions): Signer {
  const { secret, previousSecrets, issuer, now } = options;
  const rings = { access: keyRing('access'), refresh: keyRing('refresh') };

  function keyRing(purpose: Purpose): { current: TokenKey; bySegment: ReadonlyMap<string, TokenKey> } {
    const current = deriveKey(secret, purpose);
    const keys = [current, ...previousSecrets.map((previous) => deriveKey(previous, purpose))];
    return { current, bySegment: new Map(keys.map((key) => [key.segment, key])) };
  }

  function sign(claims: AccessClaims | RefreshClaims, seconds: number, at: number): string {
    const { key, header } = rings[claims.type].current;
    const iat = Math.floor(at / SECOND);
    return jwt.sign({ ...claims, iat, exp: iat + seconds, iss: issuer }, key, { algorithm: 'HS256', header });
  }

  function read(text: string, purpose: Purpose, members: readonly string[]): object | null {
    const key = rings[purpose].bySegment.get(headerOf(text) ?? '');
    if (key === undefined) return null;
    const payload = verified(text, key, { issuer, clockTimestamp: Math.floor(now() / SECOND) });
    if (payload === null || payload.type !== purpose) return null;
    const { iss: _issuer, ...claims } = payload;
    return hasAll(claims, members) ? claims : null;
  }

  return {
    access: (claims, at = now()) => sign(claims, options.accessSeconds, at),
    refresh: (claims, at = now()) => sign(claims, options.refreshSeconds, at),
    readAccess(text) {
      const claims = read(text, 'access', ACCESS_TEXTS) as (AccessClaims & TokenTimes) | null;
      return claims !== null && ROLES.includes(claims.role) ? claims : null;
    },
    readRefresh: (text) => read(text, 'refresh', REFRESH_TEXTS) as (RefreshClaims & TokenTimes) | null,
  };
}

function verified(text: string, { key }: TokenKey, options: jwt.VerifyOptions): jwt.JwtPayload | null {
  try {
    const payload = jwt.verify(text, key, { ...options, algorithms: ['HS256'] });
    return typeof payload === 'object' ? payload : null;
  } catch {
    return null;
  }
}

/**
 * These texts and the two times: `exp` above all, as the library takes a token without one. Further claims are those of a newer
 * process beside this one, which has signed them with our key.
 */
function hasAll(claims: Record<string, unknown>, texts: readonly string[]): boolean {
  return (
    texts.every((name) => typeof claims[name] === 'string') &&
    Number.isSafeInteger(claims.iat) &&
    Number.isSafeInteger(claims.exp)
  );
}

/** Which kind of token a key makes; no key makes or reads the other kind. */
export type Purpose = 'access' | 'refresh';

/** `typ` of the header (RFC 9068 names the first): the kinds are told apart before anything is believed. */
const TYPES: Readonly<Record<Purpose, string>> = { access: 'at+jwt', refresh: 'rt+jwt' };
const KEY_BYTES = 32;
const KID_LETTERS = 16;

/** A key and the header of every token that is made with it. */
interface TokenKey {
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

/** Far more than a token with the longest name takes; what is longer is not even decoded. */
const LONGEST_TOKEN = 8_192;

const SEGMENTS = /^([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)$/;

/**
 * The header segment of a text that is shaped like a token of ours, or null. Ours are exactly three canonical base64url segments
 * (no bits hidden behind the last letter), whose payload is an object in the spelling of JSON.stringify: each member once,
 * no blanks. One token then has one spelling, and no two parsers read two things in it.
 */
function headerOf(text: string): string | null {
  if (text.length > LONGEST_TOKEN) return null;
  const [, header, payload, signature] = SEGMENTS.exec(text) ?? [];
  if (header === undefined || payload === undefined || signature === undefined) return null;
  if (![header, payload, signature].every(isCanonical) || !isPlainJson(payload)) return null;
  return header;
}

function isCanonical(segment: string): boolean {
  return Buffer.from(segment, 'base64url').toString('base64url') === segment;
}

function isPlainJson(segment: string): boolean {
  const text = Buffer.from(segment, 'base64url').toString();
  try {
    return text.startsWith('{') && JSON.stringify(JSON.parse(text)) === text;
  } catch {
    return false;
  }
}
