import { createHmac, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto';
import { existing, whyAccountRefused } from '#shared/auth/account.ts';
import { type Current, isLost, sessionEndOf } from '#shared/auth/session.ts';
import type { Secrets } from '#shared/kernel/secret.ts';
import { HOUR } from '#shared/kernel/time.ts';

/** Longest life of a session of the console. */
export const SESSION_MS = 8 * HOUR;

/** A session of the console, which its signed cookie contains. */
export interface Session {
  /** The ADMIN account and the session of the auth service; null for the holder of OPS_TOKEN. */
  account: { id: string; sessionId: string } | null;
  /** Proof that a form comes from a page of this session. */
  csrf: string;
  /** Unix milliseconds by MongoDB's clock. */
  endsAt: number;
}

/** The secrets from which the keys of cookies derive. */
export interface SessionSecrets {
  opsToken: Secrets | undefined;
  /** Accepted secrets of access tokens, the current one first; empty if this process does not serve the auth service. */
  jwtSecrets: readonly string[];
}

/** Returns a new session that ends at the latest end. */
export function newSession(account: Session['account'], now: number): Session {
  return { account, csrf: randomBytes(16).toString('base64url'), endsAt: now + SESSION_MS };
}

/**
 * Returns the cookie of a session. `secret` is the OPS_TOKEN that its holder presented, or the current secret of access tokens. The key
 * derives from it, so that the session ends when the secret is no longer accepted.
 */
export function sealed(session: Session, secret: string): string {
  const kind = session.account === null ? 'token' : 'account';
  const payload = Buffer.from(JSON.stringify(session)).toString('base64url');
  return `${kind}.${payload}.${signatureOf(kind, payload, secret).toString('base64url')}`;
}

/**
 * Returns the session of a cookie, or null if its signature is wrong or its time is over. The key also decides the kind: the holder of
 * OPS_TOKEN cannot sign the session of an account.
 */
export function unsealed(cookie: string | undefined, secrets: SessionSecrets, now: number): Session | null {
  const [kind = '', payload = '', signature = '', ...rest] = cookie?.split('.') ?? [];
  if (rest.length > 0 || (kind !== 'token' && kind !== 'account')) return null;
  const accepted = kind === 'account' ? secrets.jwtSecrets : [secrets.opsToken ?? []].flat();
  const given = Buffer.from(signature, 'base64url');
  let isSigned = false;
  for (const secret of accepted) {
    if (secret === '') continue;
    const expected = signatureOf(kind, payload, secret);
    isSigned = (given.length === expected.length && timingSafeEqual(given, expected)) || isSigned;
  }
  if (!isSigned) return null;
  const session = JSON.parse(Buffer.from(payload, 'base64url').toString('utf8')) as Session;
  return session.endsAt > now && (session.account === null) === (kind === 'token') ? session : null;
}

const KEY_BYTES = 32;

function signatureOf(kind: string, payload: string, secret: string): Buffer {
  const key = hkdfSync('sha256', secret, '', `examhall console ${kind}`, KEY_BYTES);
  return createHmac('sha256', Buffer.from(key)).update(payload).digest();
}

/** Returns true if the account is an ADMIN who may act now, in a session of the auth service that still lives. */
export function mayOperate(current: Current, now: Date, sessionMaxMs: number): boolean {
  const { account, session } = current;
  if (isLost(current, now, sessionMaxMs) || sessionEndOf(session, sessionMaxMs) <= now) return false;
  return existing(account) !== null && whyAccountRefused(account) === null && account.role === 'ADMIN';
}

/** Returns the value of a cookie, or undefined if the header lacks it. */
export function cookieOf(header: string | undefined, name: string): string | undefined {
  for (const pair of (header ?? '').split(';')) {
    const at = pair.indexOf('=');
    if (at !== -1 && pair.slice(0, at).trim() === name) return pair.slice(at + 1).trim();
  }
  return undefined;
}

/**
 * Returns true if a form was sent by a page of this origin, as its browser reports. A browser sends `Sec-Fetch-Site` over https and to the
 * own machine; otherwise `Origin` must name the host of the request.
 */
export function isOwnOrigin(headers: Readonly<Record<string, string | undefined>>): boolean {
  const site = headers['sec-fetch-site'];
  if (site !== undefined) return site === 'same-origin';
  const origin = headers.origin;
  if (origin === undefined || !URL.canParse(origin)) return false;
  return new URL(origin).host === headers.host?.toLowerCase();
}
