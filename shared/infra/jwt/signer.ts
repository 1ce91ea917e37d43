import { createSecretKey, hkdfSync, type KeyObject, pbkdf2Sync } from 'node:crypto';
import jwt from 'jsonwebtoken';
import { ROLES } from '#shared/auth/account.ts';
import type { DeviceClaims } from '#shared/auth/device.ts';
import type { AccessClaims, RefreshClaims, TokenTimes } from '#shared/auth/session.ts';
import { type Now, SECOND } from '#shared/kernel/time.ts';

export interface Signer {
  /** Returns an access token with exactly these claims and times, and its issuer. */
  access(claims: AccessClaims & TokenTimes): string;
  /** Returns a refresh token, signed as `access` does. */
  refresh(claims: RefreshClaims & TokenTimes): string;
  /** Returns a device token, signed as `access` does. */
  device(claims: DeviceClaims & TokenTimes): string;
  /** Returns the claims of a valid access token of ours; null for any other text, without a reason. */
  readAccess(text: string): (AccessClaims & TokenTimes) | null;
  /** Returns the claims of a valid refresh token of ours; null for any other text, without a reason. */
  readRefresh(text: string): (RefreshClaims & TokenTimes) | null;
  /** Returns the claims of a valid device token of ours; null for any other text, without a reason. */
  readDevice(text: string): (DeviceClaims & TokenTimes) | null;
}

export interface SignerOptions {
  secret: string;
  /** Tokens signed with these secrets are still valid, so that a secret can be changed without ending sessions. */
  previousSecrets: readonly string[];
  issuer: string;
  /** Decides whether a token that is read has expired. */
  now: Now;
}

/** Claims that are text, of each kind of token. A token without one of them is refused. */
const ACCESS_TEXTS = ['sub', 'type', 'role', 'accountCode', 'fullName', 'email', 'defaultOrganizationId', 'sid', 'jti'];
const REFRESH_TEXTS = ['sub', 'type', 'jti', 'sid'];
const DEVICE_TEXTS = ['sub', 'type', 'sid', 'epoch'];

/**
 * Opens a signer that creates and verifies tokens with HS256 only.
 *
 * A header is never interpreted. It must equal the header of one of our keys for this purpose, character by character. A token can
 * therefore choose neither its algorithm nor its key nor a URL to fetch one, and it cannot add `crit`.
 */
export function openSigner(options: SignerOptions): Signer {
  const { secret, previousSecrets, issuer, now } = options;
  const current = tokenKeys(secret);
  const all = [current, ...previousSecrets.map(tokenKeys)];
  const bySegment = {
    access: new Map(all.map(({ access }) => [access.segment, access])),
    refresh: new Map(all.map(({ refresh }) => [refresh.segment, refresh])),
    device: new Map(all.map(({ device }) => [device.segment, device])),
  };

  function sign(claims: (AccessClaims | RefreshClaims | DeviceClaims) & TokenTimes): string {
    const { key, header } = current[claims.type];
    return jwt.sign({ ...claims, iss: issuer }, key, { algorithm: 'HS256', header });
  }

  function read(text: string, purpose: Purpose, members: readonly string[]): object | null {
    const key = bySegment[purpose].get(headerOf(text) ?? '');
    if (key === undefined) return null;
    const payload = verified(text, key, { issuer, clockTimestamp: Math.floor(now() / SECOND) });
    if (payload === null || payload.type !== purpose) return null;
    const { iss: _issuer, ...claims } = payload;
    return hasAll(claims, members) ? claims : null;
  }

  return {
    access: sign,
    refresh: sign,
    device: sign,
    readAccess(text) {
      const claims = read(text, 'access', ACCESS_TEXTS) as (AccessClaims & TokenTimes) | null;
      return claims !== null && ROLES.includes(claims.role) ? claims : null;
    },
    readRefresh: (text) => read(text, 'refresh', REFRESH_TEXTS) as (RefreshClaims & TokenTimes) | null,
    readDevice: (text) => read(text, 'device', DEVICE_TEXTS) as (DeviceClaims & TokenTimes) | null,
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
 * Returns true if the claims contain these texts and the two times. `exp` matters most, because the library accepts a token without
 * it. Further claims are allowed: a newer version of this process may have signed them with our key.
 */
function hasAll(claims: Record<string, unknown>, texts: readonly string[]): boolean {
  return (
    texts.every((name) => typeof claims[name] === 'string') &&
    Number.isSafeInteger(claims.iat) &&
    Number.isSafeInteger(claims.exp)
  );
}

/** The kind of token that a key signs and verifies. No key is used for two kinds. */
export type Purpose = 'access' | 'refresh' | 'device';

/** A key and the header of every token that it signs. */
export interface TokenKey {
  key: KeyObject;
  header: { alg: 'HS256'; typ: string; kid: string };
  /** The header in the encoding of a token. */
  segment: string;
}

const DERIVED_KEY_BYTES = 32;

/**
 * Returns the keys of a secret. Its own UTF-8 bytes sign access tokens, so that a service with the secret can verify them with any
 * JWT library. Derived keys sign refresh and device tokens, which only this service reads, so that no library accepts one as an access token.
 * Header `typ` distinguishes the kinds (RFC 9068 defines the first), and `kid` the secrets.
 *
 * @throws Error if the secret is empty
 */
export function tokenKeys(secret: string): Readonly<Record<Purpose, TokenKey>> {
  if (secret === '') throw new Error('Tokens cannot be signed with an empty secret');
  const bytes = Buffer.from(secret, 'utf8');
  const derived = (info: string) => Buffer.from(hkdfSync('sha256', bytes, '', info, DERIVED_KEY_BYTES));
  const kid = kidOf(bytes);
  return {
    access: tokenKey(bytes, 'at+jwt', kid),
    refresh: tokenKey(derived('examhall refresh token'), 'rt+jwt', kid),
    device: tokenKey(derived('examhall device token'), 'dt+jwt', kid),
  };
}

function tokenKey(bytes: Buffer, typ: string, kid: string): TokenKey {
  const header = { alg: 'HS256', typ, kid } as const;
  return { key: createSecretKey(bytes), header, segment: Buffer.from(JSON.stringify(header)).toString('base64url') };
}

const KID_BYTES = 12;
/** Testing a guessed secret against a `kid` costs this many times as much as testing it against a signature: about 5 ms a secret. */
const KID_ITERATIONS = 20_000;

/**
 * Returns the `kid` of a secret. With a plain digest, an attacker could test guesses faster than with a signature, and could use one
 * table of digests against every installation. A slow digest makes both useless.
 */
function kidOf(secret: Buffer): string {
  return pbkdf2Sync(secret, 'examhall kid', KID_ITERATIONS, KID_BYTES, 'sha256').toString('base64url');
}

/** Maximum length of a token, in characters, far above a token with the longest names. A longer text is not even decoded. */
const MAX_TOKEN_LENGTH = 8_192;

const SEGMENTS = /^([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)$/;

/**
 * Returns the header segment of a text that has the form of our tokens, or null.
 *
 * Our tokens are exactly three canonical base64url segments, without unused bits in the last character. Their payload is an object
 * as JSON.stringify writes it: each member once, no white space. So a token has exactly one spelling, and all parsers read the same.
 */
function headerOf(text: string): string | null {
  if (text.length > MAX_TOKEN_LENGTH) return null;
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
